"""The counters in plain Python; `models.py` has the other structures, and says what a model is."""


class Counters:
    """Six numbers."""

    def __init__(self) -> None:
        self.came = self.delivered = self.redelivered = self.acked = self.nacked = self.dead = 0

    def count_came(self, count: int = 1) -> None:
        self.came += self._checked(count)

    def count_delivered(self, again: bool) -> None:
        self.delivered += 1
        self.redelivered += bool(again)

    def count_acked(self, count: int = 1) -> None:
        self.acked += self._checked(count)

    def count_nacked(self) -> None:
        self.nacked += 1

    def count_dead(self, count: int = 1) -> None:
        self.dead += self._checked(count)

    @staticmethod
    def _checked(count: int) -> int:
        if not -(2**63) <= count < 2**63:
            raise OverflowError("a count is a signed 64-bit integer")
        if count < 0:
            raise ValueError(f"{count} events cannot have been counted")
        return count
