"""The reference of every key, printed from the schema.

`docs/reference/configuration.md` holds this text, and a test compares the two.
"""

import json
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from broker.config.keys import (
    config_type,
    environment_name,
    grammar_of,
    not_yet_active,
    path_text,
    settable_keys,
    unwrap,
)

NOT_YET = "(accepted, not acted on yet)"
NOTHING = "—"


class Row(NamedTuple):
    """One key of the reference, as the cells of a table."""

    key: str
    type: str
    bounds: str
    default: str
    environment: str
    meaning: str


def reference() -> str:
    """A heading and a Markdown table for each section."""
    sections = []
    for field in config_type().fields:
        rows = [Row("Key", "Type", "Bounds", "Default", "Environment", "Meaning"), Row(*["---"] * 6)]
        inner = unwrap(field.type)
        if isinstance(inner, inspect.StructType):
            rows += _fields(inner, f"{field.encode_name}.")
        else:
            rows += _field(field, field.encode_name)
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        sections.append(f"### `{field.encode_name}`\n\n{_description(field.type)}\n\n{table}\n")
    return "\n".join(sections)


def rows(struct: inspect.StructType | None = None) -> list[Row]:
    """Every key, those of list and map entries too: `triggers[].id`, `streams.perStreamCaps[].maxDepth`."""
    return _fields(struct or config_type(), "")


def _fields(struct: inspect.StructType, prefix: str) -> list[Row]:
    return [row for field in struct.fields for row in _field(field, prefix + field.encode_name)]


def _field(field: inspect.Field, key: str) -> list[Row]:
    """The row of one key, then those of the keys below it."""
    kind, bounds = _type_and_bounds(field.type)
    row = Row(
        key=f"`{key}`",
        type=kind,
        bounds=bounds,
        default="required" if field.required else _default(field),
        environment=_environment(key),
        meaning=_description(field.type) + (f" {NOT_YET}" if not_yet_active(key) else ""),
    )
    match unwrap(field.type):
        case inspect.StructType() as struct:
            return [row, *_fields(struct, f"{key}.")]
        case inspect.UnionType(types=(inspect.StructType() as struct, *_)):
            return [row, *_fields(struct, f"{key}.")]
        case inspect.VarTupleType(item_type=inspect.StructType() as struct):
            return [row, *_fields(struct, f"{key}[].")]
        case inspect.DictType(value_type=inspect.StructType() as struct):
            return [row, *_fields(struct, f"{key}[].")]
    return [row]


def _type_and_bounds(described: inspect.Type) -> tuple[str, str]:
    grammar = grammar_of(described)
    match unwrap(described):
        case inspect.IntType(ge=low, le=high):
            return "integer", f"{low} to {high}"
        case inspect.FloatType(ge=low, le=high):
            return "number", f"{low:g} to {high:.0f}"
        case inspect.LiteralType(values=choices):
            return "text", ", ".join(f"`{choice}`" for choice in choices)
        case inspect.UnionType(types=types):
            kinds = [_type_and_bounds(each) for each in types]
            return " or ".join(kind for kind, _ in kinds), kinds[0][1]
        case inspect.VarTupleType(item_type=item, min_length=shortest):
            of = grammar_of(item)
            return "list", f"{'at least one; ' if shortest else ''}each {of.noun if of else 'a mapping'}"
        case inspect.DictType(key_type=key, value_type=value):
            of = grammar_of(key)
            holds = "a mapping" if isinstance(value, inspect.StructType) else "text, a number or a boolean"
            holds = "any JSON" if isinstance(value, inspect.AnyType) else holds
            return "map", f"from {of.noun if of else 'text'} to {holds}"
        case inspect.StructType():
            return "mapping", NOTHING
        case inspect.BoolType():
            return "boolean", "`true`, `false`"
        case inspect.NoneType():
            return "null", NOTHING
        case inspect.StrType():
            return "text", grammar.noun if grammar else NOTHING
    return "any JSON", NOTHING


def _default(field: inspect.Field) -> str:
    value: Any = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    is_shown = value != "" and not isinstance(value, msgspec.Struct)
    return f"`{json.dumps(value)}`" if is_shown else NOTHING


def _environment(key: str) -> str:
    names = {path_text(path): environment_name(path) for path in settable_keys()}
    return f"`{names[key]}`" if key in names else NOTHING


def _description(described: inspect.Type) -> str:
    schema = described.extra_json_schema if isinstance(described, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))
