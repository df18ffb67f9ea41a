"""The event that is being handled, and how many agents led to it.

An agent may publish events that wake other agents, and they may wake the first one again. So each event that an agent
causes says how many agents there are in the chain before it. The number travels in its payload, as `_hops`, and
handlers do not see it there. A payload goes wherever its event goes: into the journal, through `schedule_at`, through
a crash, out of a dead letter. Rejected: a column beside the payload, which every event would pay for, and which
the deferred ones would need too; the `correlation_id`, which belongs to the extensions; memory, which forgets the
number just when a chain is long enough to matter.

Handlers that are no agents pass the number on and do not add to it: who schedules the same reminder every morning is
not a loop of agents.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from broker.bus import Event

HOPS_KEY = "_hops"


@dataclass(frozen=True, slots=True)
class Cause:
    """What a handler, and all that it starts, is working for."""

    event: Event
    """As the handler has it."""
    hops: int
    """How many agents there are in the chain that led here."""


_current: ContextVar[Cause | None] = ContextVar("courier_cause", default=None)


def current() -> Cause | None:
    """What the running code is working for; None outside of handlers."""
    return _current.get()


@contextmanager
def handling(event: Event) -> Iterator[Event]:
    """Work for an event as it came from the bus; as its handlers are to see it."""
    seen = replace(event, payload=without_hops(event.payload))
    with _working_for(Cause(seen, hops_of(event.payload))):
        yield seen


@contextmanager
def one_agent_further(event: Event) -> Iterator[None]:
    """What is published from here on has one agent more in its chain."""
    with _working_for(Cause(event, hops() + 1)):
        yield


@contextmanager
def _working_for(cause: Cause) -> Iterator[None]:
    token = _current.set(cause)
    try:
        yield
    finally:
        _current.reset(token)


def hops() -> int:
    """How many agents led to what is being done."""
    cause = _current.get()
    return 0 if cause is None else cause.hops


def with_hops(payload: Any) -> Any:
    """A payload that is to be published, with the number of agents that led to it, if there were any."""
    if not isinstance(payload, dict):
        return payload  # the bus says what is wrong with it
    bare = without_hops(payload)
    return {**bare, HOPS_KEY: hops()} if hops() else bare


def hops_of(payload: Any) -> int:
    """How many agents led to an event. What is no number there counts as none: anybody may publish anything."""
    hops = payload.get(HOPS_KEY) if isinstance(payload, dict) else None
    return hops if isinstance(hops, int) and not isinstance(hops, bool) and hops > 0 else 0


def without_hops(payload: Any) -> Any:
    """The payload as its publisher wrote it."""
    if isinstance(payload, dict) and HOPS_KEY in payload:
        return {key: value for key, value in payload.items() if key != HOPS_KEY}
    return payload
