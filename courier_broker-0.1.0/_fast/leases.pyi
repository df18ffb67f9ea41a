from types import GenericAlias
from typing import Generic, TypeVar

T = TypeVar("T")

class Leases(Generic[T]):
    """Deliveries that are out, each with a deadline and the attempt number that fences it.

    Whoever releases or extends must name the attempt under which the lease was granted: the late
    answer of an earlier holder names an older attempt, and is refused. Times are whole
    milliseconds of a monotonic clock that the caller reads.
    """

    def __init__(self, capacity: int, now_ms: int = 0) -> None:
        """Raise ValueError unless 1 <= capacity <= 2**30 and 0 <= now_ms < 2**48."""

    @property
    def capacity(self) -> int:
        """How many leases may be out at once."""

    @property
    def now_ms(self) -> int:
        """How far `expire` has come: its last time, or the last deadline returned when `limit` was reached."""

    def grant(self, key: int, attempt: int, deadline_ms: int, item: T) -> bool:
        """Lease `item` under `key` until `deadline_ms`. False, and nothing changed, at capacity.

        A deadline at or before the present is allowed: the lease is due at the next `expire`.
        Raise ValueError when `key` is leased already, attempt is outside 1 .. 2**31 - 1 or
        deadline_ms is outside 0 .. 2**48 - 1; TypeError when `item` is None.
        """

    def grant_many(self, first_key: int, attempts: list[int], deadline_ms: int, items: list[T]) -> int:
        """Lease items until one deadline, under `first_key`, the number after it and so on; each has its attempt.

        Return how many were leased, the first ones: fewer than there are items only at capacity.
        Raise what `grant` raises for any of them, ValueError unless there are as many attempts as
        items, and OverflowError for a last key past 2**63 - 1; nothing is leased then.
        """

    def release(self, key: int, attempt: int) -> T | None:
        """End a lease and return its item; None when `key` is not leased under this attempt."""

    def release_many(self, keys: list[int], attempts: list[int]) -> list[T | None]:
        """What releases in a row answer, in the order of the keys: None where one does not hold.

        Raise ValueError unless there are as many attempts as keys, TypeError for one that is not an
        int, and OverflowError for one past 64 bits; nothing is released then.
        """

    def extend(self, key: int, attempt: int, deadline_ms: int) -> bool:
        """Move a deadline, either way; False when `key` is not leased under this attempt.

        Raise ValueError for a deadline that `grant` would refuse.
        """

    def attempt_of(self, key: int) -> int:
        """The attempt under which `key` is leased; 0 when it is not."""

    def expire(self, now_ms: int, limit: int = ...) -> list[tuple[int, int, T]]:
        """Move the clock to `now_ms`; end and return (key, attempt, item) of every lease that is due.

        Due means deadline_ms <= now_ms. Earliest deadline first; among equal deadlines, in the order
        in which they were granted or last extended. A deadline before the property `now_ms` counts as
        equal to it. A clock that went backwards is taken as standing still. When `limit` leases were
        returned (2**62 unless given) the property `now_ms` stays at the deadline of the last one,
        whether or not more are due: those come with the next call.
        Raise ValueError unless limit >= 1 and now_ms < 2**48.
        """

    def next_deadline_ms(self) -> int:
        """When to call `expire` next: never later than the earliest deadline; -1 when nothing is leased.

        It may be earlier than the earliest deadline, but only finitely often: an `expire` at that
        time makes progress towards the deadline.
        """

    def __len__(self) -> int:
        """How many leases are out."""

    def __sizeof__(self) -> int:
        """Bytes of the structure and its storage, without the items themselves."""

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias: ...
