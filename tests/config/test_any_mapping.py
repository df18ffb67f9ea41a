"""Whatever a file, the environment or the flags hold: it loads, or it is refused. Nothing else happens."""

import itertools
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from broker.config import LoadedConfig, grammar, load
from broker.config.keys import config_type, environment_name, grammar_of, path_text, settable_keys, unwrap
from broker.config.show import as_json, as_yaml
from broker.errors import ConfigError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 100_000)
    | st.floats()
    | st.text()
    | st.sampled_from(["", "full", "a/*", "**", "streams:*:enqueue", "admin:*", "sha256:" + "0" * 64, "***", "notify"])
)


def field_names(described: inspect.Type) -> set[str]:
    match unwrap(described):
        case inspect.StructType(fields=fields):
            names = {field.encode_name for field in fields}
            return names.union(*(field_names(field.type) for field in fields))
        case inspect.VarTupleType(item_type=item):
            return field_names(item)
        case inspect.DictType(value_type=value):
            return field_names(value)
        case inspect.UnionType(types=types):
            return set().union(*(field_names(each) for each in types))
    return set()


KEYS = st.sampled_from(sorted(field_names(config_type()))) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5))
SECTIONS = st.sampled_from([field.encode_name for field in config_type().fields])


GOOD = {
    grammar.HOST: ["127.0.0.1", "localhost", "::1"],
    grammar.ALLOWED_HOST: ["a", "a:1", "[::1]:80"],
    grammar.ORIGIN: ["https://a", "http://a:1"],
    grammar.SCOPE: ["admin:*", "streams:*:enqueue", "views:*:read", "devices:pi"],
    grammar.TOKEN: ["dev", "x" * 64],
    grammar.TOKEN_HASH: ["sha256:" + digit * 64 for digit in "0123456789abcdef"],
    grammar.PATTERN: ["a", "a/*", "a/**", "*/b"],
    grammar.STREAM: ["a", "a/b"],
}


def plausible(described: inspect.Type) -> st.SearchStrategy[Any]:
    """Values of the right shape, of which many load, so that the deep checks are reached."""
    match unwrap(described):
        case inspect.StructType(fields=fields):
            required = {field.encode_name: plausible(field.type) for field in fields if field.required}
            optional = {field.encode_name: plausible(field.type) for field in fields if not field.required}
            return st.fixed_dictionaries(required, optional=optional)
        case inspect.VarTupleType(item_type=item):
            return st.lists(plausible(item), max_size=3)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(plausible(key), plausible(value), max_size=3)
        case inspect.UnionType(types=types):
            return st.one_of([plausible(each) for each in types])
        case inspect.IntType(ge=low, le=high):
            return st.integers(low, high)
        case inspect.FloatType(ge=low, le=high):
            return st.floats(low, high)
        case inspect.LiteralType(values=choices):
            return st.sampled_from(choices)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.StrType():
            known = grammar_of(described)
            return st.sampled_from(GOOD[known]) if known in GOOD else st.text(min_size=1)
    return JSON


def loads_or_refuses(
    text: bytes, environ: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> LoadedConfig | None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "courier.yaml"
        file.write_bytes(text)
        try:
            loaded = load(file, environ or {}, flags or {})
        except ConfigError as error:
            problems = error.problems
        else:
            assert repr(reload_of(as_yaml(loaded), file).config) == repr(loaded.config)
            assert json.loads(as_json(loaded))
            return loaded
    assert problems
    assert all(problem and problem.isprintable() for problem in problems)
    return None


def reload_of(text: str, file: Path) -> LoadedConfig:
    """What the shown text loads to. A mask is refused by design, so another token stands in for each."""
    number = itertools.count()
    before, auth, tokens = text.partition("\nauth:\n")
    tokens = re.sub(r'token: "\*\*\*"', lambda _: f"token: stand-in-{next(number)}", tokens)
    file.write_text(before + auth + tokens, encoding="utf-8")
    return load(file, {}, {})


@given(st.dictionaries(SECTIONS | KEYS, JSON, max_size=5))
@settings(max_examples=300, deadline=None)
def test_any_mapping_loads_or_is_refused(mapping: dict[str, Any]) -> None:
    loads_or_refuses(json.dumps(mapping).encode())


@given(plausible(config_type()))
@settings(max_examples=300, deadline=None)
def test_a_plausible_mapping_loads_or_is_refused(mapping: dict[str, Any]) -> None:
    loads_or_refuses(json.dumps(mapping).encode())


@given(
    st.binary() | st.text().map(str.encode) | st.text("{}[]:,-?&*!|>'\"%@`#~ \n\tab01.", max_size=60).map(str.encode)
)
@example(b"? *a\n: 1")
@example(b"&a *a")
@example(b"a: !!float x")
@example(b"<<: {a: 1}")
@settings(max_examples=500, deadline=None)
def test_any_file_loads_or_is_refused(content: bytes) -> None:
    loads_or_refuses(content)


@given(
    st.dictionaries(
        st.sampled_from([environment_name(path) for path in settable_keys()])
        | st.text("ABCDERSV_", max_size=9).map("COURIER_".__add__),
        st.text() | JSON.map(json.dumps),
        max_size=4,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_environment_loads_or_is_refused(environ: dict[str, str]) -> None:
    environ.pop("COURIER_CONFIG", None)
    loads_or_refuses(b"", environ)


@given(
    st.dictionaries(
        st.sampled_from([path_text(path) for path in settable_keys()]) | st.text(),
        JSON | st.binary() | st.dates() | st.tuples(st.integers()) | st.just(10**5000),
        max_size=4,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_flags_load_or_are_refused(flags: dict[str, object]) -> None:
    loads_or_refuses(b"", None, flags)
