"""Problems: where each value came from, and one line for each thing that is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.config.keys import Path, excerpt, quoted, shown_path

# Stands in the tree for a value that was refused already, so that it is not reported twice.
REFUSED = object()


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value came from: `kind` is file, environment or flag; `label` says which one."""

    kind: str
    label: str

    def __str__(self) -> str:
        return f"{self.kind} {self.label}"


@dataclass(slots=True)
class Findings:
    """What the layers said where, and what is wrong with it so far."""

    sources: dict[Path, Source] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def source_of(self, path: Path) -> Source | None:
        """Who set this path: the nearest enclosing value that is known, or None for a default."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.sources:
                return self.sources[path[:length]]
        return None

    def replace_source(self, path: Path, source: Source) -> None:
        """A stronger layer set this path, and with it everything below."""
        for known in [known for known in self.sources if known[: len(path)] == path]:
            del self.sources[known]
        self.sources[path] = source

    def refuse(self, path: Path, text: str, *, involved: tuple[Path, ...] = ()) -> None:
        """Note a problem with a value, at the place that set it, or else one of the values involved."""
        setters = (self.sources[each] for each in (path, *involved) if each in self.sources)
        source = next(setters, self.source_of(path))
        self.refuse_at(source.label if source else None, path, text)

    def refuse_at(self, label: str | None, path: Path, text: str) -> None:
        """Note a problem at a place that is known already."""
        self.problems.append(": ".join(filter(None, (label, shown_path(path), text))))


def found(value: object, *, is_secret: bool = False) -> str:
    """A value for the end of a message; of what may be a secret, only its kind."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false" if is_secret else str(value).lower()
        case int():
            if is_secret:
                return "an integer"
            return str(value) if value.bit_length() <= 64 else "an integer of more than 64 bits"
        case float():
            return "a number" if is_secret else repr(value)
        case str():
            return "text" if is_secret else quoted(excerpt(value))
        case list() | tuple():
            return "a list" if value else "an empty list"
        case Mapping():
            return "a mapping"
    return f"a value of type {type(value).__name__}"
