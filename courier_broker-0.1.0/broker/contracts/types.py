"""The grammar of patterns that select event types.

    pattern   part *( "." part )     where a part may be
              "*"    any one part of a type
              "**"   the rest of it, one part or more; only as the last part

Types are written in parts by convention (`sprint.assign`); one without a dot is one part. Everything here is
pure, and gives an answer (never an exception) for any text.
"""

from broker.contracts.names import text_problem
from broker.limits import EVENT_TYPE_BYTES_MAX


def type_pattern_problem(pattern: str) -> str | None:
    """What is wrong with `pattern` as a pattern of event types, as a reason that a person can act on."""
    unfit = text_problem(pattern, EVENT_TYPE_BYTES_MAX)
    if unfit is not None:
        return unfit
    parts = pattern.split(".")
    for position, part in enumerate(parts, start=1):
        if "*" not in part or part == "*":
            continue
        if part != "**":
            return f"part {position} mixes * with text; * and ** stand for whole parts"
        if position < len(parts):
            return f"part {position} is **, which may only come last"
    return None


def type_pattern_matches(pattern: str, event_type: str) -> bool:
    """Whether a valid pattern selects a type."""
    wanted, parts = pattern.split("."), event_type.split(".")
    if wanted[-1] == "**":
        wanted.pop()
        if len(parts) <= len(wanted):
            return False
        parts = parts[: len(wanted)]
    return len(wanted) == len(parts) and all(want in ("*", part) for want, part in zip(wanted, parts, strict=True))
