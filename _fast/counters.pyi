class Counters:
    """How many events of a stream came, went out, were answered and died. Counting allocates nothing."""

    def __init__(self) -> None: ...
    @property
    def came(self) -> int:
        """Events that were taken."""

    @property
    def delivered(self) -> int:
        """Deliveries, the repeated ones included."""

    @property
    def redelivered(self) -> int:
        """Deliveries of events that had been delivered before."""

    @property
    def acked(self) -> int:
        """Events that a consumer was done with."""

    @property
    def nacked(self) -> int:
        """Deliveries that a consumer refused."""

    @property
    def dead(self) -> int:
        """Events that will not be delivered any more."""

    def count_came(self, count: int = 1) -> None:
        """So many events were taken. Raise ValueError unless count >= 0."""

    def count_delivered(self, again: bool) -> None:
        """An event went out, for the first time or again."""

    def count_acked(self, count: int = 1) -> None:
        """Consumers are done with so many events. Raise ValueError unless count >= 0."""

    def count_nacked(self) -> None:
        """A consumer refused a delivery."""

    def count_dead(self, count: int = 1) -> None:
        """So many events will not be delivered any more. Raise ValueError unless count >= 0."""
