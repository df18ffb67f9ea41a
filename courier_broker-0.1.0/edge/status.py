"""How things stand, for a person or a monitor."""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from edge.store import Lane

if TYPE_CHECKING:
    from edge.outbox import Outbox
    from edge.sender import Sender


@dataclass(frozen=True, slots=True)
class Status:
    """What an outbox holds, and how its sender fares."""

    depth: int
    waiting: int
    rejected: int
    bytes: int
    oldest_seconds: float | None
    acknowledged: int
    dropped: int
    connected: bool | None
    url: str | None
    in_flight: int
    failures: int
    last_error: str | None
    rate_per_second: float | None
    failure: str | None = None
    lanes: dict[str, dict[str, int]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def totals(lanes: dict[str, Lane]) -> dict[str, Any]:
    """The fields of a status that follow from the counts of the lanes."""
    rejected = sum(lane.rejected for lane in lanes.values())
    depth = sum(lane.rows for lane in lanes.values())
    return {
        "depth": depth,
        "waiting": depth - rejected,
        "rejected": rejected,
        "bytes": sum(lane.bytes for lane in lanes.values()),
        "acknowledged": sum(lane.acknowledged for lane in lanes.values()),
        "dropped": sum(lane.dropped for lane in lanes.values()),
        "lanes": {name: asdict(lane) for name, lane in lanes.items()},
    }


def status_of(outbox: "Outbox", sender: "Sender", url: str, oldest_us: int | None) -> Status:
    """The status of an outbox that is open here."""
    return Status(
        **totals(outbox.counts),
        oldest_seconds=None if oldest_us is None else max(0.0, (outbox.now_us() - oldest_us) / 1_000_000),
        connected=sender.connected,
        url=url,
        in_flight=len(sender.flights.by_id),
        failures=sender.failures,
        last_error=sender.last_error,
        rate_per_second=round(sender.rate.per_second(), 3),
        failure=outbox.failure,
    )
