"""Reload: only what has changed, between two events, and nothing of the old version is left."""

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from broker import Broker
from broker.extensions.watch import watch
from tests.bus.conftest import journal_row, settled
from tests.extensions.conftest import IT, LISTENS, StartHost, User, named, thing, write
from tests.support.writer import eventually

TELLS = """
class It:
    shut = False

    async def initialize(self, context):
        self.context = context
        context.subscribe_event("task", self.on_task)

    async def on_task(self, event):
        await self.context.notify_user("%s")

    def shutdown(self):
        type(self).shut = True
"""


def modules() -> list[str]:
    return [each for each in sys.modules if each.startswith("courier_extension_")]


async def test_only_what_has_changed_is_replaced(broker: Broker, start_host: StartHost, root: Path, user: User) -> None:
    write(root, "a", IT, TELLS % "a 1")
    write(root, "b", IT, TELLS % "b 1")
    host = await start_host()
    old_a, b = thing(host, "a"), thing(host, "b")
    before = len(modules())
    write(root, "a", IT, TELLS % "a 2")
    await host.reload()
    assert thing(host, "b") is b
    assert thing(host, "a") is not old_a
    assert old_a.shut
    assert not b.shut
    await broker.bus.publish("task", "x", {})
    assert sorted(await user.until_told(2)) == ["a 2", "b 1"]
    await settled(broker, "task")
    assert len(user.told) == 2
    assert len(modules()) == before


async def test_a_save_within_the_same_second_and_of_the_same_size_is_the_new_code(
    start_host: StartHost, root: Path
) -> None:
    write(root, "a", IT, "class It:\n    version = 1\n")
    host = await start_host()
    for version in range(2, 6):
        write(root, "a", IT, f"class It:\n    version = {version}\n")
        await host.reload()
        assert thing(host, "a").version == version
    assert [name for _, _, names in os.walk(root) for name in names if name.endswith(".pyc")] == []


async def test_a_new_version_that_cannot_run_leaves_the_old_one_running(
    broker: Broker, start_host: StartHost, root: Path, user: User, problems: list[str]
) -> None:
    write(root, "a", IT, TELLS % "still here")
    host = await start_host()
    before = len(modules())
    for broken in ("class It\n", TELLS.replace("self.context = context", "raise ValueError('no')")):
        write(root, "a", IT, broken)
        await host.reload()
    assert [each.rpartition(f"{root}/a/")[2] for each in problems] == [
        "extension.py:1: SyntaxError: expected ':'",
        "extension.py:6: initialize: ValueError: no",
    ]
    assert len(modules()) == before
    await broker.bus.publish("task", "x", {})
    assert await user.until_told() == ["still here"]
    await settled(broker, "task")
    assert len(user.told) == 1


async def test_a_handler_of_the_old_version_ends_first_and_no_event_is_passed_over(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    slow = """
    import asyncio

    class It:
        inside, go, shut = asyncio.Event(), asyncio.Event(), False

        async def initialize(self, context):
            self.context = context
            context.subscribe_event("task", self.on_task)

        async def on_task(self, event):
            self.inside.set()
            await self.go.wait()
            await self.context.notify_user(f"old {event.payload['n']}")

        def shutdown(self):
            type(self).shut = True
    """
    write(root, "a", IT, slow)
    host = await start_host()
    old = thing(host, "a")
    for n in range(3):
        await broker.bus.publish("task", "x", {"n": n})
    await old.inside.wait()
    write(root, "a", IT, (TELLS % "new").replace('"new"', "f\"new {event.payload['n']}\""))
    reloading = asyncio.create_task(host.reload())
    await eventually(lambda: thing(host, "a") is not old)
    assert not reloading.done()
    assert not old.shut
    old.go.set()
    await reloading
    assert old.shut
    assert await user.until_told(3) == ["old 0", "new 1", "new 2"]


async def test_what_is_added_runs_and_what_is_taken_away_does_not(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    write(root, "a", IT, TELLS % "a")
    host = await start_host()
    a = thing(host, "a")
    write(root, "b", IT, TELLS % "b")
    (root / "a/manifest.yaml").unlink()
    (root / "a/extension.py").unlink()
    (root / "a").rmdir()
    await host.reload()
    assert [each.id for each in host.extensions] == ["b"]
    assert a.shut
    await broker.bus.publish("task", "x", {})
    assert await user.until_told() == ["b"]
    write(root, "b", "enabled: false\n" + IT)
    await host.reload()
    assert host.extensions == []
    event_id = await broker.bus.publish("task", "x", {})
    assert (await journal_row(broker, event_id))["status"] == "pending"


async def test_a_channel_that_is_replaced_is_the_new_one_and_one_that_is_gone_is_none(
    start_host: StartHost, root: Path
) -> None:
    code = "class It:\n    said = []\n    async def send(self, message):\n        self.said.append(message.text)\n"
    write(root, "ops", f"{IT}channel: {{}}\n", code)
    write(root, "ext", IT, TELLS % "x")
    host = await start_host()
    assert host.channels.ids == ["user", "ops"]
    write(root, "ops", f"{IT}channel: {{default: true}}\n", f"{code}\n")
    await host.reload()
    assert host.channels.default == "ops"
    await thing(host, "ext").context.notify_user("hello")
    assert thing(host, "ops").said == ["hello"]
    write(root, "ops", "enabled: false\n")
    await host.reload()
    assert host.channels.ids == ["user"]


async def test_an_object_that_cannot_be_the_channel_or_the_provider_is_reported(
    start_host: StartHost, root: Path, problems: list[str]
) -> None:
    write(root, "a", f"{IT}channel: {{}}\n", "class It:\n    pass\n")
    write(root, "b", f"{IT}agent: {{provider: b}}\n", "class It:\n    pass\n")
    write(root, "c", "agent: {base_url: 'http://a/v1'}\n")
    write(root, "d", "agent: {model: m}\n")
    await start_host()
    assert [each.rpartition("manifest.yaml: ")[2] for each in problems] == [
        "channel: the object of the entrypoint has no send(message)",
        "agent.provider: the object of the entrypoint has no invoke(request)",
        "agent.model: missing; the built-in provider needs the name of a model",
        "agent: the environment has neither OPENAI_API_KEY nor OPENAI_BASE_URL; set the key, or give base_url for an "
        "endpoint that needs none",
    ]
    assert modules() == []


async def test_a_hundred_reloads_leave_nothing_behind(broker: Broker, start_host: StartHost, root: Path) -> None:
    write(root, "a", IT + LISTENS % ("alert", "notify_user"), TELLS % "0")
    host = await start_host()
    tasks, names = len(asyncio.all_tasks()), len(modules())
    for number in range(100):
        write(root, "a", IT + LISTENS % ("alert", "notify_user"), TELLS % number)
        await host.reload()
    gc.collect()
    assert (len(asyncio.all_tasks()), len(modules())) == (tasks, names)
    assert len(broker.bus._subscriptions) == len(named(host, "a")._subscriptions) == 2
    assert sum(type(each).__name__ == "Extension" for each in gc.get_objects()) == 1
    assert sum(type(each).__name__ == "Code" for each in sys.meta_path) == 1


async def test_a_watched_directory_is_reloaded_when_it_changes_and_a_failure_is_told_once(
    start_host: StartHost, root: Path, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a", IT, "class It:\n    version = 1\n")
    host = await start_host()
    looks = 0
    look = host.look

    async def counted() -> Any:
        nonlocal looks
        looks += 1
        return await look()

    monkeypatch.setattr(host, "look", counted)
    watching = asyncio.create_task(watch(host, seconds=0.005))
    try:
        write(root, "a", IT, "class It:\n    version = 2\n")
        await eventually(lambda: thing(host, "a").version == 2)
        write(root, "b", IT, "class It\n")
        await eventually(lambda: len(problems) == 1)
        seen = looks
        await eventually(lambda: looks > seen + 5)
        assert len(problems) == 1
        write(root, "b", IT, "class It:\n    pass\n")
        await eventually(lambda: len(host.extensions) == 2)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_an_event_that_comes_to_the_old_version_only_after_the_reload_finds_it_running(
    broker: Broker, start_host: StartHost, root: Path, user: User, problems: list[str]
) -> None:
    """It has begun with the handlers of then, and the first of them takes its time."""
    slow = """
    import asyncio

    class It:
        inside, go = asyncio.Event(), asyncio.Event()

        async def initialize(self, context):
            context.subscribe_event("task", self.on_task)

        async def on_task(self, event):
            self.inside.set()
            await self.go.wait()
    """
    write(root, "a", IT, slow)
    write(root, "b", IT, TELLS % "old")
    host = await start_host()
    first, old = thing(host, "a"), thing(host, "b")
    event_id = await broker.bus.publish("task", "x", {})
    await first.inside.wait()
    write(root, "b", IT, TELLS % "new")
    reloading = asyncio.create_task(host.reload())
    await eventually(lambda: thing(host, "b") is not old)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not old.shut
    first.go.set()
    await reloading
    assert old.shut
    await settled(broker, "task")
    assert user.told == ["old"]
    assert (await journal_row(broker, event_id))["status"] == "done"
    assert problems == []


async def test_a_subscription_that_cannot_be_is_reported_with_its_line_after_a_change_too(
    start_host: StartHost, root: Path, problems: list[str]
) -> None:
    write(root, "a", IT, TELLS % "a")
    host = await start_host()
    write(root, "a", IT, TELLS.replace('"task"', '"no topic"') % "a")
    await host.reload()
    (problem,) = problems
    assert problem.startswith(f"{root}/a/extension.py:7: initialize: InvalidRequest: topic 'no topic'")


async def test_a_shutdown_that_is_cancelled_is_reported_and_stops_no_other(
    start_host: StartHost, root: Path, problems: list[str]
) -> None:
    write(root, "a", IT, "class It:\n    shut = False\n    def shutdown(self):\n        type(self).shut = True\n")
    write(root, "b", IT, "import asyncio\nclass It:\n    def shutdown(self):\n        raise asyncio.CancelledError\n")
    host = await start_host()
    first = thing(host, "a")
    await host.stop()
    assert problems == [f"{root}/b/extension.py:4: shutdown: CancelledError"]
    assert first.shut
