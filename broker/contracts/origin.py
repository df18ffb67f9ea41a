"""Who an event of the bus is from: its envelope is the payload alone, and does not say."""

from typing import NamedTuple

from broker.contracts.bus import CONTRACT
from broker.contracts.inbound import InboundEvent


class Origin(NamedTuple):
    """The columns of the ledger that a handler gets beside the payload."""

    source_system: str
    correlation_id: str | None


def origin_of(contract: str, source_system: str, correlation_id: str | None) -> Origin | None:
    """The origin of an event of the bus; None for another contract, whose envelope says it."""
    return Origin(source_system, correlation_id) if contract == CONTRACT else None


def origin_of_event(event: InboundEvent) -> Origin:
    """The origin of an admitted event of the bus."""
    return Origin(event.source_system, event.correlation_id)
