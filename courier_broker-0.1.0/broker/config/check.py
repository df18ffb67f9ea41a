"""The check of every single value against the schema.

`msgspec.convert` stops at the first thing that is wrong, and a person who has six mistakes in a file
wants to hear of six. So this walks the same types, notes every problem, and leaves the conversion to
msgspec once there is none.
"""

import math
from collections.abc import Iterable
from typing import Any

from msgspec import inspect

from broker.config.grammar import MAP_KEY
from broker.config.keys import Path, config_type, grammar_of, nearest, unwrap
from broker.config.problems import REFUSED, Findings, found
from broker.limits import JSON_DEPTH_MAX, JSON_INTEGER_MAX, JSON_INTEGER_MIN


def check_values(
    values: dict[str, object], findings: Findings, struct: inspect.StructType | None = None
) -> dict[str, Any]:
    """A copy of `values` in which everything unfit is REFUSED; why goes to `findings`.

    They are to be a configuration, or what another type describes.
    """
    return _Check(findings).mapping(values, struct or config_type(), ())


def expected(described: inspect.Type) -> str:
    """What a type asks for, as a noun with its article and its bounds."""
    grammar = grammar_of(described)
    if grammar is not None:
        return grammar.noun
    match unwrap(described):
        case inspect.IntType(ge=low, le=high):
            return "an integer" if low is None else f"an integer between {low} and {high}"
        case inspect.FloatType(ge=low, le=high):
            return "a number" if low is None else f"a number between {low:g} and {high:.0f}"
        case inspect.LiteralType(values=choices):
            return _either([f'"{choice}"' for choice in choices])
        case inspect.UnionType(types=types):
            return _either([expected(each) for each in types])
        case inspect.VarTupleType(min_length=shortest):
            return "a list with at least one entry" if shortest else "a list"
        case inspect.StructType() | inspect.DictType():
            return "a mapping"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.StrType():
            return "text"
    return "a JSON value"


class _Check:
    """One walk over the values, down their types."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def mapping(self, values: dict[str, object], struct: inspect.StructType, path: Path) -> dict[str, Any]:
        fields = {field.encode_name: field for field in struct.fields}
        checked: dict[str, Any] = {}
        for key, value in values.items():
            if key in fields:
                checked[key] = self.value(value, fields[key].type, (*path, key))
                continue
            meant = nearest(str(key), fields)
            hint = f"did you mean {meant}?" if meant else f"expected {_either(list(fields))}"
            self._findings.refuse((*path, str(key)), f"unknown key; {hint}")
        for key, field in fields.items():
            if field.required and key not in values:
                self._findings.refuse((*path, key), f"missing; expected {expected(field.type)}")
                checked[key] = REFUSED
        return checked

    def value(self, value: object, described: inspect.Type, path: Path) -> object:
        if value is REFUSED:
            return REFUSED
        kind = unwrap(described)
        if isinstance(kind, inspect.UnionType) and isinstance(value, dict):
            kind = next((each for each in kind.types if isinstance(each, inspect.StructType)), kind)
        match kind:
            case inspect.StructType() if isinstance(value, dict):
                return self.mapping(value, kind, path)
            case inspect.DictType() if isinstance(value, dict):
                return {
                    key: self.value(each, kind.value_type, (*path, key))
                    for key, each in value.items()
                    if self._key_fits(key, kind.key_type, path)
                }
            case inspect.VarTupleType() if isinstance(value, list) and len(value) >= (kind.min_length or 0):
                return [self.value(each, kind.item_type, (*path, index)) for index, each in enumerate(value)]
            case inspect.AnyType():
                return self._json(value, path)
        return self._scalar(value, described, path)

    def _scalar(self, value: object, described: inspect.Type, path: Path) -> object:
        is_secret = _may_be_secret(path)
        kind = unwrap(described)
        types = kind.types if isinstance(kind, inspect.UnionType) else (described,)
        fitting = [each for each in types if _fits(value, unwrap(each))]
        if not fitting:
            return self._refuse(path, f"expected {expected(described)}, found {found(value, is_secret=is_secret)}")
        grammar = grammar_of(fitting[0])
        reason = grammar.problem(value) if grammar and isinstance(value, str) else None
        if grammar and reason is not None:
            return self._refuse(path, f"expected {grammar.noun}, found {found(value, is_secret=is_secret)}: {reason}")
        return value

    def _json(self, value: object, path: Path) -> object:
        """A value of any shape: whatever JSON can hold, and every JSON parser reads back the same."""
        if len(path) > JSON_DEPTH_MAX:
            return self._refuse(path, f"is nested more than {JSON_DEPTH_MAX} deep")
        if value is REFUSED:
            return REFUSED
        if isinstance(value, dict):
            return {
                key: self._json(each, (*path, key))
                for key, each in value.items()
                if self._key_fits(key, inspect.StrType(), path)
            }
        if isinstance(value, list):
            return [self._json(each, (*path, index)) for index, each in enumerate(value)]
        if value is None or any(_fits(value, kind) for kind in _JSON_SCALARS):
            return value
        return self._refuse(path, f"expected a JSON value, found {found(value)}")

    def _key_fits(self, key: object, described: inspect.Type, path: Path) -> bool:
        grammar = grammar_of(described) or MAP_KEY
        reason = grammar.problem(key) if isinstance(key, str) else "it is not text"
        if reason is not None:
            self._refuse((*path, str(key)), f"expected {grammar.noun}, found {found(key)}: {reason}")
        return reason is None

    def _refuse(self, path: Path, text: str) -> object:
        self._findings.refuse(path, text)
        return REFUSED


_JSON_SCALARS = (inspect.BoolType(), inspect.IntType(), inspect.FloatType(), inspect.StrType())


def _fits(value: object, kind: inspect.Type) -> bool:
    """Whether a scalar has the type and is within its bounds. True is no integer, and NaN is no number."""
    match kind:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType(ge=low, le=high):
            return _is_integer(value) and _within(value, low, high)
        case inspect.FloatType(ge=low, le=high):
            return (_is_integer(value) or _is_finite(value)) and _within(value, low, high)
        case inspect.StrType():
            return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
        case inspect.LiteralType(values=choices):
            return isinstance(value, str) and value in choices
        case inspect.NoneType():
            return value is None
    return False


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and JSON_INTEGER_MIN <= value <= JSON_INTEGER_MAX


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _within(value: Any, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _may_be_secret(path: Path) -> bool:
    """Whether a value may be a secret that somebody put in the right place, or in one close to it."""
    if path[0] == "sources":
        return len(path) <= 3 or path[3] in ("headers", "url")
    return path[0] == "auth" and (len(path) <= 3 or path[3] in ("token", "tokenHash"))


def _either(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
