from types import GenericAlias
from typing import Generic, TypeVar

T = TypeVar("T")

class Credits(Generic[T]):
    """Whose turn it is: round robin over the subscribers that have credit.

    A pick takes one credit from the subscriber whose turn it is and sends it to the back of the
    line; one without credit is not in the line, and costs nothing. Between two picks of a
    subscriber that keeps its credit, every other one that has credit is picked once.
    """

    def __init__(self, credit_max: int) -> None:
        """Raise ValueError unless 1 <= credit_max <= 2**31 - 1."""

    @property
    def credit_max(self) -> int:
        """How much credit one subscriber may hold."""

    @property
    def ready(self) -> int:
        """How many subscribers have credit."""

    def join(self, subscriber: T) -> int:
        """Add a subscriber, without credit; the ticket (> 0) names it from now on, and is never reused.

        Raise TypeError for None, which `pick` uses to say "nobody".
        """

    def leave(self, ticket: int) -> None:
        """Remove a subscriber with its credit. Raise KeyError for a ticket that is not (or no longer) in use."""

    def grant(self, ticket: int, credit: int) -> int:
        """Add credit; return what the subscriber now has. From zero, it joins the back of the line.

        Raise KeyError for a ticket not in use, ValueError unless credit >= 1, and OverflowError, with
        nothing changed, past `credit_max`.
        """

    def pick(self) -> T | None:
        """The subscriber whose turn it is, one credit poorer; None when nobody has credit."""

    def pick_many(self, limit: int) -> list[T]:
        """What up to `limit` picks in a row answer, until nobody has credit. Raise ValueError unless limit >= 0."""

    def credit_of(self, ticket: int) -> int:
        """The credit left. Raise KeyError for a ticket not in use."""

    def __len__(self) -> int:
        """How many subscribers there are, with credit or without."""

    def __sizeof__(self) -> int:
        """Bytes of the structure and its storage, without the subscribers themselves."""

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias: ...
