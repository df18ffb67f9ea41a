"""Texts that take a part from elsewhere: `Bearer ${env:WEATHER_TOKEN}`, `${file:/run/secrets/weather}`.

So a secret is in no file of the configuration, and what `courier config show` prints is the reference.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from broker.limits import SECRET_FILE_BYTES_MAX

_REFERENCE = re.compile(r"\$\{(?P<kind>env|file):(?P<place>[^{}]+)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SETTINGS_PREFIX = "COURIER_"
_VALUE = re.compile(r"[\t -~\x80-\xff]*")


class Unresolved(Exception):
    """What a reference points at cannot be had; the message says why, without the value."""


def has_reference(text: str) -> bool:
    """Whether a part of the text is taken from elsewhere."""
    return _REFERENCE.search(text) is not None


def reference_problem(text: str) -> str | None:
    """What is wrong with the references in `text`, as a reason that a person can act on."""
    if "${" in _REFERENCE.sub("", text):
        return "it has a ${ that begins neither ${env:NAME} nor ${file:PATH}"
    for found in _REFERENCE.finditer(text):
        if found["kind"] == "env" and not _VARIABLE.fullmatch(found["place"]):
            return "a variable of ${env:NAME} has letters, digits and _ only"
        if found["kind"] == "env" and found["place"].startswith(_SETTINGS_PREFIX):
            return f"variables that begin with {_SETTINGS_PREFIX} are settings; use another name in ${{env:NAME}}"
    return None


def resolve(text: str, environ: Mapping[str, str]) -> str:
    """The text with everything that it refers to; raise Unresolved for what is not there, or is no header."""

    def value(found: re.Match[str]) -> str:
        return _variable(found["place"], environ) if found["kind"] == "env" else _content(found["place"])

    resolved = _REFERENCE.sub(value, text)
    if not _VALUE.fullmatch(resolved):
        raise Unresolved("with what it refers to it has characters that a header cannot carry, such as a line break")
    return resolved


def _variable(name: str, environ: Mapping[str, str]) -> str:
    found = environ.get(name)
    if not found:
        raise Unresolved(f"the environment variable {name} is {'empty' if found == '' else 'not set'}")
    return found


def _content(place: str) -> str:
    try:
        with Path(place).open("rb") as file:
            content = file.read(SECRET_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise Unresolved(
            f"the file {place} cannot be read: {error.strerror if isinstance(error, OSError) else error}"
        ) from None
    if len(content) > SECRET_FILE_BYTES_MAX:
        raise Unresolved(f"the file {place} has more than {SECRET_FILE_BYTES_MAX} bytes")
    try:
        text = content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Unresolved(f"the file {place} is not UTF-8") from None
    if not text:
        raise Unresolved(f"the file {place} is empty")
    return text
