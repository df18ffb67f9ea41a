"""One event on its way to a consumer."""


class Entry:
    """An event of a stream, from the moment it waits in the ring until it is acknowledged.

    `attempt` counts its deliveries, and fences the answers to them.
    """

    __slots__ = ("attempt", "envelope", "first_attempt_at", "id", "offered_ms", "seq", "stream")

    def __init__(self, stream: str, seq: int, event_id: str, envelope: bytes, attempt: int, offered_ms: int) -> None:
        self.stream = stream
        self.seq = seq
        self.id = event_id
        self.envelope = envelope
        self.attempt = attempt
        self.offered_ms = offered_ms
        self.first_attempt_at: int | None = None
