"""Who an event of the bus is from: its envelope is the payload alone, and does not say."""

from typing import NamedTuple

from broker.contracts.bus import CONTRACT


class Origin(NamedTuple):
    """The columns of the ledger that a handler gets beside the payload."""

    source_system: str
    correlation_id: str | None


def origin_of(contract: str, source_system: str, correlation_id: str | None) -> Origin | None:
    """The origin of an event of the bus; None for another contract, whose envelope says it."""
    return Origin(source_system, correlation_id) if contract == CONTRACT else None
