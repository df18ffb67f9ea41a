"""The two handlers that a manifest can name without any code: notify_user and invoke_agent."""

from broker.agents import Agent
from broker.bus import Event, Handler
from broker.channels import Channels, Message
from broker.channels.channels import channel_of
from broker.errors import InvalidRequest


def notify_user(extension_id: str, channels: Channels) -> Handler:
    """Send `text` of the payload to the user."""

    async def handle(event: Event) -> None:
        text = event.payload.get("text") if isinstance(event.payload, dict) else None
        if not isinstance(text, str):
            found = "missing" if text is None else f"of the type {type(text).__name__}"
            raise InvalidRequest(f"notify_user sends payload.text, which must be text; here it is {found}")
        await channels.send(Message(text, extension_id, channel_of(event.payload), event))

    return handle


def invoke_agent(agent: Agent, channels: Channels) -> Handler:
    """Ask the agent about the event, and send its answer to the user."""

    async def handle(event: Event) -> None:
        message = Message("", agent.agent_id, channel_of(event.payload), event)
        await agent.answer(event, lambda pieces: channels.stream(message, pieces))

    return handle
