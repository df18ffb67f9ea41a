"""Agents: what answers an event, and what holds it back.

request  AgentRequest: what an agent is asked
provider AgentProvider: what is asked of one
cause    the event that is being handled, and how many agents led to it
budget   how often an agent may be called
sse      server-sent events, cut out of bytes
openai   the provider for every endpoint that speaks the protocol of OpenAI
agent    Agent: one provider, within its bounds
"""

from broker.agents.agent import Agent, AgentFailed
from broker.agents.provider import AgentProvider
from broker.agents.request import AgentRequest

__all__ = ["Agent", "AgentFailed", "AgentProvider", "AgentRequest"]
