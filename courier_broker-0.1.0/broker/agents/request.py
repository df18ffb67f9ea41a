"""What an agent is asked."""

from dataclasses import dataclass

from broker.bus import Event


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """One event to answer, with what the agent's manifest says about how."""

    event: Event
    agent_id: str
    """The extension whose agent it is."""
    instructions: str = ""
    model: str | None = None
