"""Templates with the fields of an event put in, as JSON."""

from typing import Any

import msgspec
from msgspec import Raw

from broker.contracts.templates import Field, parse_template
from broker.triggers.fields import Fields

_NULL = b"null"


def rendered(value: Any, fields: Fields) -> Any:
    """A value of any shape with its templates filled in; a field is put in as its own JSON. Keys are left alone."""
    if isinstance(value, str):
        return _rendered_text(value, fields)
    if isinstance(value, dict):
        return {key: rendered(each, fields) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rendered(each, fields) for each in value]
    return value


def rendered_text(text: str, fields: Fields) -> str:
    """A template as text, also where it is a field and nothing else."""
    return "".join(_as_text(part, fields) if isinstance(part, Field) else part for part in parse_template(text))


def _rendered_text(text: str, fields: Fields) -> str | Raw:
    if "${" not in text:
        return text
    match parse_template(text):
        case (Field(path),):
            return Raw(fields.find(path) or _NULL)
    return rendered_text(text, fields)


def _as_text(field: Field, fields: Fields) -> str:
    """A field inside a longer text: a string as it reads, anything else as its JSON."""
    value = (fields.find(field.path) or _NULL).strip()
    return msgspec.json.decode(value, type=str) if value.startswith(b'"') else value.decode()
