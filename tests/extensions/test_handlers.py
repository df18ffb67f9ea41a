"""The handlers of a manifest: notify_user, invoke_agent and custom (004, "Manifest-Driven Subscriptions")."""

import time
from pathlib import Path

import pytest

from broker import Broker
from broker.channels import Channels
from broker.extensions import Host
from tests.bus.conftest import journal_row, settled
from tests.conftest import OpenBroker
from tests.extensions.conftest import IT, LISTENS, RECORDS, StartHost, User, named, thing, until_seen, write
from tests.support.http_server import answer, serving, status
from tests.support.writer import eventually

AGENT = """
class It:
    requests = []

    async def invoke(self, request):
        self.requests.append(request)
        yield "Reminder: "
        yield request.event.payload["text"]
"""


async def test_notify_user_sends_the_text_of_the_payload_over_the_default_channel(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    write(root, "alerts", LISTENS % ("alert.urgent", "notify_user"))
    await start_host()
    await broker.bus.publish("alert.urgent", "ext", {"text": "fire"})
    assert await user.until_told() == ["fire"]
    assert (user.messages[0].extension_id, user.messages[0].channel_id) == ("alerts", "user")


async def test_the_channel_id_of_a_payload_selects_the_channel(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    write(root, "alerts", LISTENS % ("alert.*", "notify_user"))
    host = await start_host()
    other = User()
    host.channels.add("other", other)
    await broker.bus.publish("alert.a", "ext", {"text": "there", "channel_id": "other"})
    await broker.bus.publish("alert.b", "ext", {"text": "here", "channel_id": "user"})
    assert (await other.until_told(), await user.until_told()) == (["there"], ["here"])


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({}, "notify_user sends payload.text, which must be text; here it is missing"),
        ({"text": 5}, "here it is of the type int"),
        ({"text": ""}, "the text of a message is empty"),
        ({"text": "x", "channel_id": "usr"}, "there is no channel 'usr'; did you mean user?"),
        ({"text": "x", "channel_id": 5}, "payload.channel_id must be text"),
    ],
)
async def test_what_cannot_be_sent_marks_the_event_as_failed_with_the_reason(
    broker: Broker, start_host: StartHost, root: Path, user: User, payload: dict[str, object], error: str
) -> None:
    write(root, "alerts", LISTENS % ("alert", "notify_user"))
    await start_host()
    event_id = await broker.bus.publish("alert", "ext", payload)
    await settled(broker, "alert")
    row = await journal_row(broker, event_id)
    assert row["status"] == "failed"
    assert row["error"].startswith("alerts.notify_user: ")
    assert error in row["error"]
    assert user.told == []


async def test_invoke_agent_asks_the_provider_of_the_extension_and_sends_its_answer(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    manifest = """
    entrypoint: extension:It
    agent:
      integration_mode: tool
      model: gpt-5-mini
      instructions: |
        You handle reminders.
    events:
      subscribes:
        - topic: reminder.due
          handler: invoke_agent
    """
    write(root, "reminder_agent", manifest, AGENT)
    host = await start_host()
    await broker.bus.publish("reminder.due", "reminder", {"text": "Drink water"}, "req-1")
    assert await user.until_told() == ["Reminder: Drink water"]
    (request,) = thing(host, "reminder_agent").requests
    assert (request.agent_id, request.model) == ("reminder_agent", "gpt-5-mini")
    assert request.instructions == "You handle reminders.\n"
    assert (request.event.topic, request.event.correlation_id) == ("reminder.due", "req-1")


async def test_invoke_agent_may_ask_the_provider_of_another_extension(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    write(root, "asks", "agent: {provider: brain, instructions: be kind}" + LISTENS % ("reminder.due", "invoke_agent"))
    write(root, "brain", IT, AGENT)
    host = await start_host()
    await broker.bus.publish("reminder.due", "ext", {"text": "tea"})
    assert await user.until_told() == ["Reminder: tea"]
    assert thing(host, "brain").requests[0].agent_id == "asks"


async def test_a_provider_that_does_not_run_is_named_in_the_failure(
    broker: Broker, start_host: StartHost, root: Path
) -> None:
    write(root, "asks", "agent: {provider: brain}" + LISTENS % ("reminder.due", "invoke_agent"))
    await start_host()
    event_id = await broker.bus.publish("reminder.due", "ext", {"text": "tea"})
    await settled(broker, "reminder.due")
    assert "names the extension brain, which is not running" in (await journal_row(broker, event_id))["error"]


async def test_invoke_agent_asks_an_endpoint_if_nobody_in_the_extension_answers(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    """The manifest of the document as it stands: base URL and key are those of the environment."""
    manifest = """
    agent:
      integration_mode: tool
      model: gpt-5-mini
      instructions: |
        You handle reminders. When a reminder is due, respond with "Reminder: <text>"

    events:
      subscribes:
        - topic: reminder.due
          handler: invoke_agent
    """
    write(root, "reminder", manifest)
    async with serving(answer("Reminder: ", "tea")) as server:
        await start_host({"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-1"})
        await broker.bus.publish("reminder.due", "ext", {"text": "tea"})
        assert await user.until_told() == ["Reminder: tea"]
    assert server.headers[0]["Authorization"] == "Bearer sk-1"
    assert server.bodies[0]["model"] == "gpt-5-mini"


async def test_the_key_of_the_environment_is_not_sent_to_an_endpoint_of_the_manifest(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    async with serving(answer("yes")) as server:
        agent = f"agent: {{model: m, base_url: '{server.url}'}}"
        write(root, "local", agent + LISTENS % ("task", "invoke_agent"))
        await start_host({"OPENAI_API_KEY": "sk-1"})
        await broker.bus.publish("task", "ext", {})
        assert await user.until_told() == ["yes"]
    assert "Authorization" not in server.headers[0]


async def test_a_failure_of_the_endpoint_is_the_error_of_the_event_and_the_key_is_not_in_it(
    broker: Broker, start_host: StartHost, root: Path
) -> None:
    async with serving(status(401, "no")) as server:
        agent = f"agent: {{model: m, base_url: '{server.url}', api_key_env: MY_KEY}}"
        write(root, "local", agent + LISTENS % ("task", "invoke_agent"))
        await start_host({"MY_KEY": "sk-secret"})
        event_id = await broker.bus.publish("task", "ext", {})
        await settled(broker, "task")
    error = (await journal_row(broker, event_id))["error"]
    url = f"{server.url}/chat/completions"
    assert error == f"local.invoke_agent: CallFailed: {url} answered 401: no; look at the key in the variable MY_KEY"


async def test_custom_wires_nothing_and_what_the_manifest_says_about_it_counts(
    broker: Broker, start_host: StartHost, root: Path
) -> None:
    manifest = """
    entrypoint: extension:It
    events:
      subscribes:
        - {topic: task.received, handler: custom, retries: 2, backoff: 0, timeout: 30, concurrency: 4}
    """
    code = RECORDS + "        if len(self.seen) < 3:\n            raise ValueError('not yet')\n"
    write(root, "ext", manifest, code)
    host = await start_host()
    (subscription,) = named(host, "ext")._subscriptions
    assert (subscription.subscriber_id, subscription.retries, subscription.backoff) == ("ext", 2, 0)
    assert (subscription.timeout, subscription.concurrency) == (30, 4)
    event_id = await broker.bus.publish("task.received", "x", {})
    assert len(await until_seen(thing(host, "ext"), 3)) == 3
    await settled(broker, "task.received")
    assert (await journal_row(broker, event_id))["status"] == "done"


async def test_handlers_of_a_manifest_come_before_those_of_initialize(
    broker: Broker, start_host: StartHost, root: Path, user: User
) -> None:
    code = RECORDS + "        await self.context.notify_user('custom')\n"
    write(root, "a", IT, code)
    write(root, "b", LISTENS % ("task.received", "notify_user"))
    await start_host()
    await broker.bus.publish("task.received", "x", {"text": "manifest"})
    assert await user.until_told(2) == ["manifest", "custom"]


async def test_a_handler_that_calls_exit_fails_its_event_and_ends_nothing(
    broker: Broker, start_host: StartHost, root: Path
) -> None:
    write(root, "ext", IT, RECORDS + "        raise SystemExit(3)\n")
    await start_host()
    event_id = await broker.bus.publish("task.received", "x", {})
    await settled(broker, "task.received")
    assert "the handler called sys.exit(3)" in (await journal_row(broker, event_id))["error"]


async def test_an_answer_may_take_longer_than_a_lease_and_is_asked_for_once(
    open_broker: OpenBroker, root: Path, user: User
) -> None:
    code = """
    import asyncio

    class It:
        calls, go = 0, asyncio.Event()

        async def invoke(self, request):
            type(self).calls += 1
            await self.go.wait()
            return "at last"
    """
    write(root, "slow", IT + "agent: {}\n" + LISTENS % ("task", "invoke_agent"), code)
    broker = await open_broker({"streams": {"defaultLeaseMs": 100}})
    channels = Channels()
    channels.add("user", user)
    host = Host(root, broker.bus, environ={}, channels=channels)
    await host.start()
    event_id = await broker.bus.publish("task", "x", {})
    began = time.monotonic()
    await eventually(lambda: time.monotonic() > began + 0.35)
    thing(host, "slow").go.set()
    assert await user.until_told() == ["at last"]
    await settled(broker, "task")
    assert thing(host, "slow").calls == 1
    assert (await journal_row(broker, event_id))["status"] == "done"
    await host.stop()
