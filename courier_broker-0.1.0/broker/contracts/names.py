"""The grammar of stream names, and of the patterns that select them.

    name      segment *( "/" segment )          at most 8 segments and 255 bytes
    segment   one or more of A-Z a-z 0-9 . _ -  but neither "." nor ".."
    pattern   as a name, but a segment may be
              "*"    any one segment
              "**"   the rest of the name, one segment or more; only as the last segment

"." and ".." are refused because a name travels in URLs, where clients resolve them away: such a stream
could be written to and never be addressed again.

A `_problem` function returns None for good text, else a reason that a person can act on. Everything
here is pure, and gives an answer (never an exception) for any text.
"""

import re

from broker.limits import STREAM_NAME_BYTES_MAX, STREAM_NAME_SEGMENTS_MAX

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_UNWANTED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_REST, _ONE, _LITERAL = 0, 1, 2


def text_problem(text: str, bytes_max: int) -> str | None:
    """What is wrong with `text` as an id, a name or a type: empty, too long, or not printable."""
    if not text:
        return "it is empty"
    unwanted = _UNWANTED.search(text)
    if unwanted is not None:
        kind = "a lone surrogate" if unwanted.group() >= "\ud800" else "a control character"
        return f"it has {kind} at position {unwanted.start() + 1}"
    size = len(text.encode())
    return None if size <= bytes_max else f"it is {size} bytes long; at most {bytes_max} are allowed"


def stream_name_problem(name: str) -> str | None:
    """What is wrong with `name` as the name of a stream."""
    return _problem(name, wildcards=False)


def stream_pattern_problem(pattern: str) -> str | None:
    """What is wrong with `pattern` as a pattern of stream names."""
    return _problem(pattern, wildcards=True)


def pattern_matches(pattern: str, name: str) -> bool:
    """Whether a valid pattern selects a valid name."""
    return pattern_covers(pattern, name)


def pattern_covers(pattern: str, other: str) -> bool:
    """Whether every name that `other` (a valid pattern, or a name) selects is selected by a valid pattern too."""
    outer, inner = pattern.split("/"), other.split("/")
    if outer[-1] == "**":
        outer.pop()
        if len(inner) <= len(outer):
            return False
        inner = inner[: len(outer)]
    if len(outer) != len(inner) or "**" in inner:
        return False
    return all(want in ("*", have) for want, have in zip(outer, inner, strict=True))


def pattern_specificity(pattern: str) -> tuple[int, ...]:
    """A key that sorts the most specific pattern last: `max(matching, key=pattern_specificity)`.

    Segments count from the left; literal text beats `*`, and `*` beats `**`. Two different patterns that
    match one name never share a key, so that the winner does not depend on the order of a file.
    """
    return tuple(_REST if segment == "**" else _ONE if segment == "*" else _LITERAL for segment in pattern.split("/"))


def _problem(text: str, *, wildcards: bool) -> str | None:
    unfit = text_problem(text, STREAM_NAME_BYTES_MAX)
    if unfit is not None:
        return unfit
    segments = text.split("/")
    if len(segments) > STREAM_NAME_SEGMENTS_MAX:
        return f"it has {len(segments)} segments; at most {STREAM_NAME_SEGMENTS_MAX} are allowed"
    for position, segment in enumerate(segments, start=1):
        is_last = position == len(segments)
        reason = _segment_problem(segment, wildcards=wildcards, is_last=is_last)
        if reason is not None:
            return f"segment {position} {reason}"
    return None


def _segment_problem(segment: str, *, wildcards: bool, is_last: bool) -> str | None:
    if not segment:
        return "is empty"
    if segment in (".", ".."):
        return 'is "." or "..", which URLs resolve away'
    if wildcards and segment == "*":
        return None
    if wildcards and segment == "**":
        return None if is_last else "is **, which may only come last"
    if _SEGMENT.fullmatch(segment):
        return None
    if wildcards and "*" in segment:
        return "mixes * with text; * and ** stand for whole segments"
    return "has a character outside A-Z a-z 0-9 . _ -"
