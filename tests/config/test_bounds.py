"""Every bound of the schema holds: at it a value loads, past it it is refused with both bounds."""

import copy
import json
from typing import Any, NamedTuple

import pytest
from msgspec import inspect

from broker.config.keys import config_type, path_text, unwrap
from broker.limits import DEDUPE_ENTRIES_MAX
from tests.config.conftest import Load, Problems

RATE = {"perSecond": 1, "burst": 1}

# One entry in every list and map, so that each key below one has a place to stand.
DOCUMENT: dict[str, Any] = {
    "server": {},
    "journal": {"retention": {}},
    "streams": {"perStreamCaps": {"a": {"rate": dict(RATE)}}},
    "triggers": [{"id": "t", "when": {}, "do": [{"action": "notify", "to": "s"}], "limits": {}}],
    "auth": {"tokens": [{"tokenHash": "sha256:" + "0" * 64, "scopes": ["admin:*"], "rate": dict(RATE)}]},
    "log": {},
    "views": {},
    "bus": {},
    "grpc": {},
    "sources": {
        "rest": [{"name": "a", "stream": "s", "url": "http://h"}],
        "websocket": [{"name": "b", "stream": "s", "url": "ws://h"}],
    },
    "metrics": {},
    "events": {},
}

# What else must be set for a value at its bound to be possible.
COMPANIONS = {
    "journal.queueMax": ("journal", "dedupeEntries", DEDUPE_ENTRIES_MAX),
    "journal.dedupeEntries": ("journal", "queueMax", 1),
}


class Bound(NamedTuple):
    path: tuple[str | int, ...]
    low: float
    high: float
    noun: str
    suffix: str

    def document(self, value: float) -> str:
        document = copy.deepcopy(DOCUMENT)
        companion = COMPANIONS.get(path_text(self.path))
        if companion:
            section, key, needed = companion
            document[section][key] = needed
        parent: Any = document
        for part in self.path[:-1]:
            parent = parent[part]
        parent[self.path[-1]] = value
        return json.dumps(document)


def bounds(described: inspect.Type, path: tuple[str | int, ...], suffix: str = "") -> list[Bound]:
    match unwrap(described):
        case inspect.IntType(ge=int(low), le=int(high)):
            return [Bound(path, low, high, f"an integer between {low} and {high}", suffix)]
        case inspect.FloatType(ge=float(low), le=float(high)):
            return [Bound(path, low, high, f"a number between {low:g} and {high:.0f}", suffix)]
        case inspect.UnionType(types=(first, inspect.NoneType())):
            return bounds(first, path, " or null")
        case inspect.StructType(fields=fields):
            return [bound for field in fields for bound in bounds(field.type, (*path, field.encode_name))]
        case inspect.VarTupleType(item_type=item):
            return bounds(item, (*path, 0))
        case inspect.DictType(value_type=value):
            return bounds(value, (*path, "a"))
    return []


BOUNDS = bounds(config_type(), ())
EACH = pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: path_text(bound.path))


def past(bound: Bound, edge: float, direction: int) -> float:
    return edge + direction if isinstance(edge, int) else edge * (1 + direction * 1e-6)


def at(config: Any, bound: Bound) -> object:
    value = config
    fields = {"from": "from_"}
    for part in bound.path:
        if isinstance(part, int) or isinstance(value, dict):
            value = value[part]
        else:
            snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in part)
            value = getattr(value, fields.get(snake, snake))
    return value


def test_every_number_of_the_schema_has_both_bounds() -> None:
    numbers = str(config_type()).count("IntType(") + str(config_type()).count("FloatType(")
    in_header_values = 2 * 2
    assert len(BOUNDS) == numbers - in_header_values


@EACH
def test_a_value_at_either_bound_loads(load_text: Load, bound: Bound) -> None:
    for edge in (bound.low, bound.high):
        assert at(load_text(bound.document(edge)).config, bound) == edge


@EACH
def test_a_value_past_either_bound_is_refused_with_both_bounds(problems_of: Problems, bound: Bound) -> None:
    for edge, direction in ((bound.low, -1), (bound.high, +1)):
        value = past(bound, edge, direction)
        (problem, *others) = problems_of(bound.document(value))
        assert others == []
        expected = f"expected {bound.noun}{bound.suffix}, found {value!r}"
        assert problem == f"courier.yaml:1: {path_text(bound.path)}: {expected}"
