"""How many events are being handled at once, in all topics together."""

from collections.abc import Callable


class Running:
    """A number of places. Whoever finds none is asked again when one is free, in the order of asking."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._free = places
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self, ask_again: Callable[[], None]) -> bool:
        """Take a place; False if there is none now."""
        if not self._free:
            self._waiting[ask_again] = None
            return False
        self._free -= 1
        return True

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return self._places - self._free

    def give_back(self) -> None:
        """A place is free again. Whoever was asked and did not take it leaves it to the next."""
        self._free += 1
        while self._free and self._waiting:
            ask_again = next(iter(self._waiting))
            del self._waiting[ask_again]
            ask_again()
