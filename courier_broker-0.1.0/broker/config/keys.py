"""Key paths, and what a key is called in a message, in the environment and on the command line.

path          ("server", "maxBodyBytes")
in a message  server.maxBodyBytes
environment   COURIER_SERVER__MAX_BODY_BYTES
flag          --max-body-bytes     (the section is left out for `server`: --journal-linger-ms)
"""

import difflib
import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from msgspec import inspect

from broker.config.grammar import Grammar
from broker.config.schema import NOT_YET_ACTIVE, Config

Path = tuple[str | int, ...]

ENVIRONMENT_PREFIX = "COURIER_"

_SHOWN_CHARACTERS_MAX = 80
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CAPITAL = re.compile(r"(?=[A-Z])")


@cache
def config_type() -> inspect.StructType:
    """The type description of the whole configuration."""
    described = inspect.type_info(Config)
    assert isinstance(described, inspect.StructType)
    return described


@cache
def settable_keys() -> dict[Path, inspect.Type]:
    """Every key that one variable or flag can set: the leaves, of which a list or a map is one."""
    return dict(_leaves(config_type(), ()))


def unwrap(described: inspect.Type) -> inspect.Type:
    """The bare type, without description and grammar."""
    return described.type if isinstance(described, inspect.Metadata) else described


def grammar_of(described: inspect.Type) -> Grammar | None:
    """The grammar that a text type carries, if any."""
    extra: dict[str, Any] = (described.extra or {}) if isinstance(described, inspect.Metadata) else {}
    return extra.get("grammar")


def path_text(path: Path) -> str:
    """A path as people write it: `streams.perStreamCaps["agents/*"].maxDepth`, `triggers[0].id`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{quoted(part)}]"
    return text.removeprefix(".")


def plain_or_quoted(key: str) -> str:
    """A key as YAML reads it back: as it stands where that is certain, else in quotes."""
    return key if _PLAIN_KEY.fullmatch(key) and key not in ("null", "true", "false") else quoted(key)


def not_yet_active(key: str) -> str | None:
    """The entry of NOT_YET_ACTIVE that a key is, or is below; `[]` stands for any entry of a list or map."""
    any_entry = re.sub(r"\[[^\]]*\]", "[]", key)
    return next((each for each in NOT_YET_ACTIVE if f"{any_entry}.".startswith((f"{each}.", f"{each}["))), None)


def shown_path(path: Path) -> str:
    """A path for a message: as `path_text`, with long keys cut."""
    return path_text(tuple(part if isinstance(part, int) else excerpt(part) for part in path))


def environment_name(path: Path) -> str:
    """The variable that sets this key."""
    return ENVIRONMENT_PREFIX + "__".join(_CAPITAL.sub("_", str(part)).upper() for part in path)


def flag_name(path: Path) -> str:
    """The command-line flag that sets this key."""
    parts = path[1:] if path[0] == "server" and len(path) > 1 else path
    return "--" + "-".join(_CAPITAL.sub("-", str(part)).lower() for part in parts)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that somebody probably meant."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def excerpt(text: str) -> str:
    """The beginning of a text, so that one bad value cannot fill a screen."""
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"


def printable(text: str) -> str:
    """A text as it stands if a terminal can show it, else in quotes."""
    return text if text.isprintable() else quoted(text)


def quoted(text: str) -> str:
    """A text in quotes and on one line, as YAML reads it back. Nothing in it can move a terminal's cursor."""
    return "".join(map(_escaped, json.dumps(text, ensure_ascii=False)))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"


def _leaves(struct: inspect.StructType, path: Path) -> list[tuple[Path, inspect.Type]]:
    found: list[tuple[Path, inspect.Type]] = []
    for field in struct.fields:
        inner = unwrap(field.type)
        below = (*path, field.encode_name)
        found += _leaves(inner, below) if isinstance(inner, inspect.StructType) else [(below, field.type)]
    return found
