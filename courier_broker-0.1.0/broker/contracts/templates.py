"""Text with `${env.…}` in it, which stands for a field of an envelope.

    ${env.payload.title}    a field, by the names on the way to it; a number is a place in a list
    $${                     a plain ${

A template that is the whole text is the field itself, whatever its JSON type; inside a longer text it is
written as text. Only the grammar is here; `broker/triggers/render.py` puts the fields in.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from broker.limits import TEMPLATE_PARTS_MAX, TEMPLATES_REMEMBERED_MAX

_PLACES = re.compile(r"\$?\$\{([^}]*\}?)")
_FIELD = re.compile(r"env((?:\.[^.{}$\s]+)+)\}")


class Field(NamedTuple):
    """A place where a field goes."""

    path: tuple[str, ...]


Part = str | Field


def template_problem(text: str) -> str | None:
    """What is wrong with the templates in a text, as a reason that a person can act on."""
    places = list(_PLACES.finditer(text))
    if len(places) > TEMPLATE_PARTS_MAX:
        return f"it has {len(places)} templates; at most {TEMPLATE_PARTS_MAX} are allowed"
    for place in places:
        if place[0].startswith("$$") or _FIELD.fullmatch(place[1]):
            continue
        if not place[1].endswith("}"):
            return "a ${ has no }; write $${ for a plain ${"
        return f"{place[0][:80]!r} is no field; write ${{env.NAME}}, or $${{ for a plain ${{"
    return None


@lru_cache(maxsize=TEMPLATES_REMEMBERED_MAX)
def parse_template(text: str) -> tuple[Part, ...]:
    """A text without problems as its parts, plain text and fields in turn."""
    parts: list[Part] = []
    plain, at = "", 0
    for place in _PLACES.finditer(text):
        plain += text[at : place.start()]
        at = place.end()
        if place[0].startswith("$$"):
            plain += place[0][1:]
            continue
        if plain:
            parts.append(plain)
        parts.append(Field(tuple(place[1][:-1].split(".")[1:])))
        plain = ""
    plain += text[at:]
    if plain or not parts:
        parts.append(plain)
    return tuple(parts)
