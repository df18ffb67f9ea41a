class Histogram:
    """How often each duration occurred, from 0 µs to an hour, in 886 buckets that are known to 1.6 percent.

    A negative value is counted as 0, and one above an hour (3,600,000,000 µs) as an hour. An idle
    histogram takes less than 100 bytes, one that has counted 7 KB, whatever it has counted.
    """

    def __init__(self) -> None: ...
    @property
    def count(self) -> int:
        """How many values were recorded."""

    @property
    def total(self) -> int:
        """Their sum in µs, each as it was counted."""

    def record(self, value_us: int) -> None:
        """Count a value. Only the first one after construction or `clear` allocates."""

    def percentile(self, p: float) -> int:
        """The middle, in µs, of the bucket of the value below or at which `p` percent of all values are; 0 when empty.

        That value is the one of rank ceil(p * count / 100), and the first for p = 0. The answer is
        exact below 64 µs, and within 3 percent above. Raise ValueError unless 0 <= p <= 100.
        """

    def merge(self, other: Histogram) -> None:
        """Count everything that another histogram has counted, once more."""

    def clear(self) -> None:
        """Forget everything, and give the storage back."""

    def buckets(self) -> list[tuple[int, int]]:
        """(highest value in µs, count) of every bucket that has counted, in ascending order."""

    def __sizeof__(self) -> int:
        """Bytes of the structure and its storage."""
