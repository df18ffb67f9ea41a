"""The loader: what it wires when, and that a broken extension is reported with its place and stops no other one."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from broker import Broker
from broker.extensions import Host
from broker.extensions import extension as extension_module
from broker.extensions.problems import LoadFailed
from tests.bus.conftest import journal_row, settled
from tests.conftest import OpenBroker
from tests.extensions.conftest import IT, LISTENS, RECORDS, StartHost, User, thing, until_seen, write
from tests.support.writer import eventually


async def test_manifests_are_wired_before_any_extension_is_initialized(
    start_host: StartHost, root: Path, user: User
) -> None:
    code = """
    class It:
        async def initialize(self, context):
            await context.emit("alert.urgent", {"text": "from initialize"})
    """
    write(root, "a_first", IT, code)
    write(root, "z_last", LISTENS % ("alert.urgent", "notify_user"))
    await start_host()
    assert await user.until_told() == ["from initialize"]


async def test_what_the_last_process_left_waits_until_every_extension_is_initialized(
    broker: Broker, start_host: StartHost, root: Path
) -> None:
    """Else it would be done by the first of its handlers, and the others would never see it."""
    await broker.bus.publish("task.received", "x", {"n": 1})
    slow = RECORDS.replace("self.context = context", "self.context = context\n        await asyncio.sleep(0)")
    write(root, "a", IT, RECORDS)
    write(root, "b", IT, f"import asyncio\n{slow}")
    host = await start_host()
    for each in ("a", "b"):
        assert [event.payload for event in await until_seen(thing(host, each), 1)] == [{"n": 1}]


async def test_an_extension_may_be_a_module_instead_of_a_class_and_initialize_may_be_a_plain_function(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    code = """
    async def tell(event):
        await context.notify_user(event.payload["text"])

    def initialize(given):
        global context
        context = given
        context.subscribe_event("alert", tell)
    """
    write(root, "ext", "{}", code)
    await start_host()
    await broker.bus.publish("alert", "x", {"text": "hello"})
    assert await user.until_told() == ["hello"]


async def test_modules_of_the_same_name_do_not_meet(start_host: StartHost, root: Path) -> None:
    code = "from . import helpers\nfrom .helpers import NAME\n\n\nclass It:\n    name = (NAME, helpers.NAME)\n"
    write(root, "a", IT, code, helpers="NAME = 'of a'\n")
    write(root, "b", IT, code, helpers="NAME = 'of b'\n")
    host = await start_host()
    assert thing(host, "a").name == ("of a", "of a")
    assert thing(host, "b").name == ("of b", "of b")
    assert "helpers" not in sys.modules
    assert "extension" not in sys.modules


BROKEN = {
    "a syntax error": ("class It\n", "extension.py:1: SyntaxError: expected ':'"),
    "an import error": (
        "import os\n\nimport nowhere\n",
        "extension.py:3: import: ModuleNotFoundError: No module named",
    ),
    "a module beside": (
        "import helpers\n",
        "extension.py:1: import: ModuleNotFoundError: No module named 'helpers'; it lies beside: write `from . import",
    ),
    "an exception while it is imported": ("x = 1 / 0\n", "extension.py:1: import: ZeroDivisionError: division by zero"),
    "an exit": ("import sys\nsys.exit(5)\n", "extension.py:2: import: SystemExit: 5"),
    "no such class": ("x = 1\n", "extension.py: there is no It in it, which entrypoint asks for"),
    "an exception in its constructor": (
        "class It:\n    def __init__(self):\n        raise ValueError('no')\n",
        "extension.py:3: import: ValueError: no",
    ),
    "an exception in initialize": (
        "class It:\n    async def initialize(self, context):\n        raise ValueError('no')\n",
        "extension.py:3: initialize: ValueError: no",
    ),
    "an exception below initialize": (
        "import json\nclass It:\n    def initialize(self, context):\n        json.loads('{')\n",
        "extension.py:4: initialize: JSONDecodeError: Expecting property name",
    ),
    "a cancellation in initialize": (
        "import asyncio\nclass It:\n    async def initialize(self, context):\n        raise asyncio.CancelledError\n",
        "extension.py:4: initialize: CancelledError",
    ),
    "an exit in initialize": (
        "class It:\n    async def initialize(self, context):\n        raise SystemExit(3)\n",
        "extension.py:3: initialize: RuntimeError: it called sys.exit(3)",
    ),
    "a topic that is none": (
        "class It:\n    def initialize(self, context):\n        context.subscribe_event('no topic', print)\n",
        "extension.py:3: initialize: InvalidRequest: topic 'no topic'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_extension_is_reported_with_its_place_and_the_others_run(
    broker: Broker, start_host: StartHost, root: Path, user: User, problems: list[str], name: str
) -> None:
    code, problem = BROKEN[name]
    write(root, "m_broken", IT + LISTENS % ("alert", "notify_user"), code, helpers="")
    for other in ("a", "z"):
        write(root, other, LISTENS % ("alert", "notify_user"))
    host = await start_host()
    (reported,) = problems
    assert reported.startswith(f"{root}/m_broken/{problem}")
    assert [each.id for each in host.extensions] == ["a", "z"]
    await broker.bus.publish("alert", "x", {"text": "hello"})
    assert await user.until_told(2) == ["hello", "hello"]
    await settled(broker, "alert")
    assert len(user.told) == 2, "nothing of the broken one is left"
    assert sum(each.startswith("courier_extension_") for each in sys.modules) == 0


async def test_an_initialize_that_hangs_is_given_up_at_the_place_where_it_waits(
    start_host: StartHost, root: Path, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension_module, "EXTENSION_INITIALIZE_SECONDS_MAX", 0.05)
    code = """
    import asyncio

    class It:
        async def initialize(self, context):
            await self.wait()

        async def wait(self):
            await asyncio.Event().wait()
    """
    write(root, "hangs", IT, code)
    write(root, "other", IT, RECORDS)
    host = await start_host()
    assert [each.id for each in host.extensions] == ["other"]
    assert problems == [f"{root}/hangs/extension.py:9: initialize: not done after 0.05 s; it waits here"]


async def test_custom_that_never_subscribes_is_reported(start_host: StartHost, root: Path, problems: list[str]) -> None:
    write(root, "ext", IT + LISTENS % ("reminder.due", "custom"), RECORDS)
    await start_host()
    place = f"{root}/ext/manifest.yaml: events.subscribes[0].handler"
    assert problems == [f"{place}: custom, but initialize did not call subscribe_event('reminder.due', …)"]


async def test_an_id_belongs_to_the_first_that_has_it(start_host: StartHost, root: Path, problems: list[str]) -> None:
    write(root, "a", "id: same\n")
    write(root, "b", "id: same\n")
    host = await start_host()
    assert [each.directory.name for each in host.extensions] == ["a"]
    assert problems == [f"{root}/b/manifest.yaml: id: expected an id of its own, found same, that of {root}/a"]


async def test_what_is_not_enabled_is_not_loaded(start_host: StartHost, root: Path, problems: list[str]) -> None:
    write(root, "off", "enabled: false\n" + IT, "raise ValueError\n")
    assert (await start_host()).extensions == []
    assert problems == []


async def test_a_directory_without_extensions_is_refused(start_host: StartHost, root: Path, tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="there is no extension in it"):
        await start_host()
    (root / "manifest.yaml").write_text("{}")
    with pytest.raises(LoadFailed, match="is an extension itself; name the directory that it is in"):
        await start_host()
    os.rename(root, tmp_path / "elsewhere")  # noqa: PTH104 - a Path would be taken for one that blocks
    with pytest.raises(LoadFailed, match="cannot be read: No such file or directory"):
        await start_host()


async def test_a_topic_that_may_not_come_into_being_is_reported(
    open_broker: OpenBroker, root: Path, problems: list[str]
) -> None:
    broker = await open_broker({"streams": {"autoCreate": False}})
    write(root, "alerts", LISTENS % ("alert", "notify_user"))
    host = Host(root, broker.bus, environ={}, report=problems.append)
    await host.start()
    await host.stop()
    (problem,) = problems
    assert problem.startswith(f"{root}/alerts/manifest.yaml: events.subscribes[0]: there is no stream 'topics/alert'")


async def test_shutdown_is_called_once_handlers_have_ended_and_in_the_opposite_order(
    broker: Broker, start_host: StartHost, root: Path
) -> None:
    order: list[str] = []
    code = """
    import asyncio

    class It:
        async def initialize(self, context):
            self.name, self.order = context.extension_id, None
            context.subscribe_event("task", self.on_task)
            self.began, self.go = asyncio.Event(), asyncio.Event()

        async def on_task(self, event):
            self.began.set()
            await self.go.wait()
            self.order.append(f"{self.name} handled")

        async def shutdown(self):
            self.order.append(f"{self.name} shut down")
    """
    for name in ("a", "b"):
        write(root, name, IT, code)
    host = await start_host()
    for name in ("a", "b"):
        thing(host, name).order = order
    thing(host, "b").go.set()
    first = thing(host, "a")
    await broker.bus.publish("task", "x", {})
    await first.began.wait()
    stopping = asyncio.create_task(host.stop())
    await asyncio.sleep(0)
    first.go.set()
    await stopping
    assert order == ["a handled", "b handled", "b shut down", "a shut down"]


async def test_what_an_extension_leaves_running_is_ended_with_it(start_host: StartHost, root: Path) -> None:
    code = """
    import asyncio

    class It:
        async def initialize(self, context):
            self.context = context
            self.task = asyncio.create_task(self.forever())

        async def forever(self):
            await asyncio.Event().wait()

        def shutdown(self):
            raise ValueError("no")
    """
    write(root, "ext", IT, code)
    host = await start_host()
    it = thing(host, "ext")
    await host.stop()
    assert it.task.cancelled()
    assert await it.context.schedule_at(1, "task", {}) is None
    assert not [each for each in sys.modules if each.startswith("courier_extension_")]


async def test_an_event_that_is_not_done_at_the_stop_is_handled_after_the_next_start(
    open_broker: OpenBroker, root: Path, problems: list[str]
) -> None:
    code = """
    import asyncio

    class It:
        seen = []
        go = asyncio.Event()

        def initialize(self, context):
            context.subscribe_event("task", self.on_task)

        async def on_task(self, event):
            self.seen.append(event.id)
            await self.go.wait()
    """
    write(root, "ext", IT, code)
    broker = await open_broker({"bus": {"stopMs": 0}})
    event_id = await broker.bus.publish("task", "x", {})
    host = Host(root, broker.bus, environ={}, report=problems.append)
    for _ in range(2):
        await host.start()
        it = thing(host, "ext")
        await eventually(lambda it=it: it.seen == [event_id])  # type: ignore[misc]
        await host.stop()
    assert (await journal_row(broker, event_id))["status"] == "pending"
    assert problems == []
