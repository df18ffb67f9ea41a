"""What an extension can do is what 004 says under "ExtensionContext API", and nothing else."""

import inspect
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker import Broker
from broker.agents.cause import HOPS_KEY
from broker.bus import Event
from broker.channels import Channels
from broker.errors import Draining, InvalidRequest
from broker.extensions import ExtensionContext
from tests.bus.conftest import journal_row, settled
from tests.extensions.conftest import IT, RECORDS, StartHost, User, thing, until_seen, write
from tests.support.writer import eventually


@pytest.fixture
async def it(start_host: StartHost, root: Path) -> Any:
    """An extension that remembers the events of task.received."""
    write(root, "ext", f"{IT}config: {{seconds: 5, nested: {{a: [1]}}}}", RECORDS)
    return thing(await start_host(), "ext")


def test_the_context_has_what_is_documented_with_the_documented_signatures() -> None:
    public = {name for name in vars(ExtensionContext) if not name.startswith("_")}
    assert public == {"emit", "schedule_at", "subscribe_event", "notify_user", "leave_bus"}

    def parameters(name: str) -> str:
        signature = inspect.signature(getattr(ExtensionContext, name))
        return ", ".join(
            each.name if each.default is each.empty else f"{each.name}={each.default}"
            for each in list(signature.parameters.values())[1:]
        )

    assert parameters("emit") == "topic, payload, correlation_id=None"
    assert parameters("schedule_at") == "delay, topic, payload, correlation_id=None"
    assert parameters("subscribe_event") == "topic, handler"
    assert parameters("notify_user") == "text, channel_id=None"


async def test_what_is_emitted_is_in_the_journal_with_the_extension_as_its_source(broker: Broker, it: Any) -> None:
    event_id = await it.context.emit("alert", {"level": "warning"}, correlation_id="req-123")
    row = await journal_row(broker, event_id)
    assert (row["topic"], row["source"], row["payload"]) == ("alert", "ext", '{"level":"warning"}')
    assert (row["correlation_id"], row["status"]) == ("req-123", "pending")


async def test_a_handler_gets_the_documented_event(broker: Broker, it: Any) -> None:
    event_id = await it.context.emit("task.received", {"text": "Summarize report"})
    (event,) = await until_seen(it, 1)
    assert isinstance(event, Event)
    assert event == Event(event_id, "task.received", "ext", {"text": "Summarize report"}, event.created_at)
    assert (event.correlation_id, event.status) == (None, "processing")
    with pytest.raises(AttributeError):
        event.topic = "another"
    await settled(broker, "task.received")
    assert (await journal_row(broker, event_id))["status"] == "done"


@pytest.mark.parametrize("delay", [0.01, timedelta(milliseconds=10)])
async def test_what_is_scheduled_comes_later_and_has_a_deferred_id(it: Any, delay: float | timedelta) -> None:
    deferred_id = await it.context.schedule_at(delay, "task.received", {"n": 1}, correlation_id="req-1")
    assert isinstance(deferred_id, int)
    (event,) = await until_seen(it, 1)
    assert (event.source, event.payload, event.correlation_id) == ("ext", {"n": 1}, "req-1")


async def test_the_config_of_the_manifest_and_a_logger_are_there(it: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert it.context.extension_id == "ext"
    assert it.context.config == {"seconds": 5, "nested": {"a": [1]}}
    with caplog.at_level(logging.INFO):
        it.context.logger.info("hello")
    assert [record.name for record in caplog.records if record.message == "hello"] == ["extension.ext"]


async def test_the_user_is_told_over_the_default_channel_or_over_the_one_that_is_named(it: Any, user: User) -> None:
    await it.context.notify_user("hello")
    await it.context.notify_user("hello again", channel_id="user")
    assert user.told == ["hello", "hello again"]
    assert {(each.extension_id, each.channel_id, each.event) for each in user.messages} == {("ext", "user", None)}


async def test_what_a_handler_tells_the_user_is_about_its_event(start_host: StartHost, root: Path, user: User) -> None:
    code = """
    class It:
        async def initialize(self, context):
            self.context = context
            context.subscribe_event("task.received", self.on_task)

        async def on_task(self, event):
            await self.context.notify_user(event.payload["text"])
    """
    write(root, "ext", IT, code)
    event_id = await thing(await start_host(), "ext").context.emit("task.received", {"text": "tea"})
    await user.until_told()
    assert user.messages[0].event is not None
    assert user.messages[0].event.id == event_id


async def test_what_is_no_payload_or_no_handler_is_refused_where_it_is_given(it: Any) -> None:
    with pytest.raises(InvalidRequest, match="payload must be a dict"):
        await it.context.emit("alert", ["no"])
    with pytest.raises(InvalidRequest, match="topic"):
        await it.context.emit("no topic", {})
    with pytest.raises(TypeError, match=r"subscribe_event\('alert', …\) needs a handler, not str"):
        it.context.subscribe_event("alert", "no")


async def test_without_an_event_bus_there_is_no_deferred_id_and_emit_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = ExtensionContext("ext", {}, None, Channels(), lambda _topic, _handler: None)
    assert await context.schedule_at(5.0, "reminder.due", {"text": "Drink water"}) is None
    assert "nothing was scheduled for topic reminder.due" in caplog.text
    with pytest.raises(Draining, match="the extension ext was stopped"):
        await context.emit("alert", {})


async def test_an_extension_may_subscribe_later_too(it: Any) -> None:
    later: list[Event] = []
    it.context.subscribe_event("later.*", later.append)
    await it.context.emit("later.on", {"n": 1})
    it.seen = later
    assert [event.topic for event in await until_seen(it, 1)] == ["later.on"]


async def test_a_chain_of_agents_is_counted_through_what_they_schedule(
    broker: Broker, start_host: StartHost, root: Path, problems: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Two agents that wake each other for ever come to an end, and the last event says why."""
    code = """
    class It:
        calls = 0

        def initialize(self, context):
            self.context = context

        async def invoke(self, request):
            type(self).calls += 1
            assert "_hops" not in request.event.payload
            await self.context.schedule_at(0, self.context.config["wakes"], {"n": request.event.payload["n"] + 1})
    """
    for name, listens, wakes in (("one", "ping", "pong"), ("two", "pong", "ping")):
        manifest = f"""
        entrypoint: extension:It
        config: {{wakes: {wakes}}}
        agent: {{hops_max: 5}}
        events: {{subscribes: [{{topic: {listens}, handler: invoke_agent}}]}}
        """
        write(root, name, manifest, code)
    host = await start_host()
    await thing(host, "one").context.emit("ping", {"n": 0})

    await eventually(lambda: "agents led to this event" in caplog.text)
    await settled(broker, "pong")
    assert thing(host, "one").calls + thing(host, "two").calls == 5
    row = await journal_row(broker, 6)
    assert row["payload"] == f'{{"n":5,"{HOPS_KEY}":5}}'
    assert "5 agents led to this event, one after the other, and agent.hops_max is 5" in row["error"]
    assert problems == []
