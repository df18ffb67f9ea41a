from types import GenericAlias
from typing import Generic, TypeVar

T = TypeVar("T")

class Ring(Generic[T]):
    """A bounded first-in-first-out queue in which whoever takes an item keeps its place reserved.

    `capacity` bounds the items that wait plus the items that were popped and are still held. A
    held item is either released (done with) or put back: at the tail by `requeue`, at the head by
    `restore`. Because its place was reserved, putting back cannot fail for want of room.

    The storage starts at nothing, doubles on demand up to `capacity`, and is not touched by a push
    or a pop otherwise. An idle ring takes 88 bytes, one that holds up to eight items 192.
    """

    def __init__(self, capacity: int) -> None:
        """Raise ValueError unless 1 <= capacity <= 2**31 - 1."""

    @property
    def capacity(self) -> int:
        """The bound on waiting plus held items."""

    @property
    def held(self) -> int:
        """How many popped items were neither released nor put back."""

    @property
    def allocated(self) -> int:
        """For how many items storage is allocated now; 0 before the first push."""

    def push(self, item: T) -> bool:
        """Append at the tail. False, and nothing changed, when waiting + held == capacity.

        Raise TypeError for None, which `pop` uses to say "empty".
        """

    def pop(self) -> T | None:
        """Take the item at the head and hold its place; None when nothing waits."""

    def push_many(self, items: list[T]) -> int:
        """Append at the tail as many of the items as there is room for, the first ones; how many that were.

        Raise TypeError, with nothing appended, when one of them is None.
        """

    def pop_many(self, limit: int) -> list[T]:
        """Take up to `limit` items from the head, in order, and hold their places.

        Raise ValueError unless limit >= 0.
        """

    def release(self, count: int = 1) -> None:
        """Give up the places of `count` held items. Raise ValueError unless 0 <= count <= held."""

    def requeue(self, item: T) -> None:
        """Put a held item back at the tail. Raise ValueError when none is held, TypeError for None."""

    def restore(self, item: T) -> None:
        """Put a held item back at the head. Raise ValueError when none is held, TypeError for None."""

    def compact(self) -> None:
        """Give back storage that the waiting items do not need: to be called when a burst is over."""

    def __len__(self) -> int:
        """How many items wait (held ones are not counted)."""

    def __sizeof__(self) -> int:
        """Bytes of the structure and its storage, without the items themselves."""

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias: ...
