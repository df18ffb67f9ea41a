"""The file itself: what YAML may hold here, and what is refused before any key is looked at."""

# ruff: noqa: E501 - one case a line

import json
from pathlib import Path

import pytest

from broker.config import Config, document, load
from broker.errors import ConfigError
from broker.limits import CONFIG_FILE_BYTES_MAX, JSON_DEPTH_MAX
from tests.config.conftest import Load, Problems


def payload(text: str) -> str:
    return f"triggers: [{{id: a, when: {{}}, do: [{{action: notify, to: s, payload: {text}}}]}}]"


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "{}", "null", "\ufeff{}"])
def test_an_empty_file_means_the_defaults(load_text: Load, text: str) -> None:
    loaded = load_text(text)
    assert loaded.config == Config()
    assert set(loaded.origin.values()) == {"default"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a", "courier.yaml:1: expected a mapping at the top, found a list"),
        ("\n\nhello", "courier.yaml:3: expected a mapping at the top, found a single value"),
        (
            "server: {port: 1",
            "courier.yaml:1:17: is not valid YAML: while parsing a flow mapping, expected ',' or '}', but got '<stream end>'",
        ),
        (
            "server:\n\tport: 1",
            r"courier.yaml:2:1: is not valid YAML: while scanning for the next token, found character '\t' that cannot start any token",
        ),
        (
            "a: 1\n---\nb: 2",
            "courier.yaml:2:1: is not valid YAML: expected a single document in the stream, but found another document",
        ),
        ("data: *secret", "courier.yaml:1:7: is not valid YAML: found undefined alias"),
        ("data: x\nlog: \x07", "courier.yaml:2: is not valid YAML: has an unprintable character"),
        (b"data: x\nlog: \xff", "courier.yaml:2: is not UTF-8"),
        (b"\xff\xfed\x00", "courier.yaml:1: is not UTF-8"),
        ("data: a\ndata: b", "courier.yaml:2: data: repeated key; first given at courier.yaml:1"),
        (
            "server:\n  port: 1\n  host: localhost\n  port: 1",
            "courier.yaml:4: server.port: repeated key; first given at courier.yaml:2",
        ),
        ("server: {1: x}", "courier.yaml:1: server: expected text as a key, found 1; put it in quotes"),
        ("? [a]\n: x", "courier.yaml:1: expected text as a key, found a list or a mapping"),
        ("data: !!binary aGk=", "courier.yaml:1: data: has a tag; only plain values, lists and mappings are known"),
        (
            "data: !!python/object/apply:os.getcwd []",
            "courier.yaml:1: data: has a tag; only plain values, lists and mappings are known",
        ),
        ("server: !!set {a, b}", "courier.yaml:1: server: has a tag; only plain values, lists and mappings are known"),
        (
            'server: {port: !!int "x"}',
            "courier.yaml:1: server.port: has a tag; only plain values, lists and mappings are known",
        ),
        ('data: "\\ud800"', "courier.yaml:1: data: has a lone surrogate, which is no character"),
        ("server: {port: " + "9" * 5000 + "}", "courier.yaml:1: server.port: is an integer of 5000 digits"),
        (payload("[" * 100 + "]" * 100), "courier.yaml: is nested more than 64 deep"),
        (payload("[" * 5000 + "]" * 5000), "courier.yaml: is nested more than 64 deep"),
        ("[" * 100_000, "courier.yaml: is nested more than 64 deep"),
        (payload("&a [*a]"), "courier.yaml: is nested more than 64 deep"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration_is_refused(problems_of: Problems, text: str | bytes, problem: str) -> None:
    assert problems_of(text) == [problem]


def test_a_few_aliases_that_expand_to_more_than_memory_holds_are_refused(problems_of: Problems) -> None:
    levels = [f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 10)}]" for n in range(30)]
    assert problems_of("l0: &l0 [x]\n" + "\n".join(levels)) == ["courier.yaml: expands to more than 100000 values"]


def test_a_long_text_counts_by_its_length_each_time_an_alias_uses_it(
    problems_of: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "CONFIG_VALUES_MAX", 1000)
    text = f"a: &a {'x' * 6400}\nb: [{', '.join(['*a'] * 20)}]"
    assert problems_of(text) == ["courier.yaml: expands to more than 1000 values"]


def test_a_file_may_hold_as_many_values_as_the_bound_and_no_more(
    load_text: Load, problems_of: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "CONFIG_VALUES_MAX", 100)
    around = len(["triggers", "[0]", "id", "when", "do", "[0]", "action", "to", "payload"])
    fitting = 100 - around
    assert load_text(payload(f"[{', '.join(['1'] * fitting)}]"))
    assert problems_of(payload(f"[{', '.join(['1'] * (fitting + 1))}]")) == [
        "courier.yaml: expands to more than 100 values"
    ]


def test_a_plain_alias_is_its_value(load_text: Load) -> None:
    tokens = "auth:\n  tokens:\n  - {token: a, scopes: &all ['admin:*']}\n  - {token: b, scopes: *all}"
    one, other = load_text(tokens).config.auth.tokens
    assert one.scopes == other.scopes == ("admin:*",)


def test_a_file_that_is_too_large_is_refused(problems_of: Problems, load_text: Load) -> None:
    assert load_text("#" * CONFIG_FILE_BYTES_MAX).config == Config()
    assert problems_of("#" * (CONFIG_FILE_BYTES_MAX + 1)) == ["courier.yaml: is larger than 1048576 bytes"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing.yaml", "missing.yaml: cannot be read: No such file or directory"),
        (".", ".: cannot be read: Is a directory"),
        ("a\0b", '"a\\u0000b": cannot be read: embedded null byte'),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as refused:
        load(Path(path), {"COURIER_SERVER__PORT": "x"}, {})
    assert refused.value.problems == [
        problem,
        'COURIER_SERVER__PORT: server.port: expected an integer between 0 and 65535, found "x"',
    ]


def test_plain_text_means_the_same_to_every_reader(load_text: Load) -> None:
    """YAML 1.1 reads these as a date, two booleans, an octal number, 90 and 1000."""
    text = payload("[2025-10-18, yes, off, 0o17, 1:30, 1_000, 010, +1, '~', ~, -0, 1e3, 1.5]")
    assert load_text(text).config.triggers[0].do[0].payload == [
        *("2025-10-18", "yes", "off", "0o17", "1:30", "1_000", "010", "+1", "~"),
        *(None, 0, 1000.0, 1.5),
    ]


def test_json_is_yaml_also_for_characters_past_the_basic_plane(load_text: Load) -> None:
    text = json.dumps({"data": "caf\u00e9-\U0001f600"})
    assert "\\ud83d\\ude00" in text
    assert load_text(text).config.data == "caf\u00e9-\U0001f600"


def test_a_payload_may_be_as_deep_as_the_bound_and_no_deeper(load_text: Load, problems_of: Problems) -> None:
    depth = JSON_DEPTH_MAX - len(("triggers", 0, "do", 0, "payload"))
    assert load_text(payload("[" * depth + "1" + "]" * depth))
    assert problems_of(payload("[" * (depth + 1) + "1" + "]" * (depth + 1)))
