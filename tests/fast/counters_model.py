"""The counters in plain Python; `models.py` has the other structures, and says what a model is."""


class Counters:
    """Six numbers."""

    def __init__(self) -> None:
        self.came = self.delivered = self.redelivered = self.acked = self.nacked = self.dead = 0

    def count_came(self) -> None:
        self.came += 1

    def count_delivered(self, again: bool) -> None:
        self.delivered += 1
        self.redelivered += bool(again)

    def count_acked(self) -> None:
        self.acked += 1

    def count_nacked(self) -> None:
        self.nacked += 1

    def count_dead(self, count: int = 1) -> None:
        if not -(2**63) <= count < 2**63:
            raise OverflowError("a count is a signed 64-bit integer")
        if count < 0:
            raise ValueError(f"{count} events cannot have died")
        self.dead += count
