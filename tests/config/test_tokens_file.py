"""`auth.tokensFile`: tokens in a file of their own, behind those of the configuration."""

from pathlib import Path

import pytest

from broker.config.show import as_json, as_yaml
from broker.limits import CONFIG_FILE_BYTES_MAX
from tests.config.conftest import Load, Problems

NAMED = "auth: {tokensFile: tokens.yaml}"
SECRET = "hunter2-hunter2"


def entry(name: str, token: str = "") -> str:
    return f"- name: {name}\n  token: {token or name + '-secret'}\n  scopes: ['admin:*']\n"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """The file that NAMED names: the configuration is loaded with `tmp_path` as the working directory."""
    return tmp_path / "tokens.yaml"


def test_its_entries_stand_behind_those_of_the_configuration(load_text: Load, tokens: Path) -> None:
    tokens.write_text("# two tokens\n" + entry("b") + entry("c"))
    loaded = load_text("auth:\n  tokensFile: tokens.yaml\n  tokens:\n  - {name: a, token: x, scopes: ['admin:*']}\n")
    assert [token.name for token in loaded.config.auth.tokens] == ["a", "b", "c"]
    assert loaded.tokens_of_file == 2
    assert loaded.origin["auth.tokens[0].token"] == "file courier.yaml:4"
    assert loaded.origin["auth.tokens[2].token"] == "file tokens.yaml:6"


def test_the_environment_may_name_it_and_lists_other_tokens_beside_it(load_text: Load, tokens: Path) -> None:
    tokens.write_text(entry("b"))
    listed = '[{"name": "a", "token": "x", "scopes": ["admin:*"]}]'
    loaded = load_text("", {"COURIER_AUTH__TOKENS_FILE": "tokens.yaml", "COURIER_AUTH__TOKENS": listed})
    assert [token.name for token in loaded.config.auth.tokens] == ["a", "b"]
    assert loaded.origin["auth.tokens[1].token"] == "file tokens.yaml:2"


@pytest.mark.parametrize("text", ["", "[]", "null", "# none yet\n"])
def test_an_empty_one_means_no_more_tokens(load_text: Load, tokens: Path, text: str) -> None:
    tokens.write_text(text)
    loaded = load_text(NAMED)
    assert loaded.config.auth.tokens == ()
    assert loaded.origin["auth.tokens"] == "default"


def test_with_tokens_in_it_the_broker_may_listen_beyond_this_machine(load_text: Load, tokens: Path) -> None:
    tokens.write_text(entry("a"))
    assert load_text(f"server: {{host: 0.0.0.0}}\n{NAMED}").config.server.host == "0.0.0.0"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "tokens.yaml: cannot be read: No such file or directory"),
        (SECRET, "tokens.yaml:1: expected a list at the top, found a single value"),
        (f"token: {SECRET}", "tokens.yaml:1: expected a list at the top, found a mapping"),
        (f"- {SECRET}", "tokens.yaml:1: auth.tokens[0]: expected a mapping, found text"),
        (f"- name: a\n  token: {SECRET}", "tokens.yaml:1: auth.tokens[0].scopes: missing; expected a list"),
        (entry("a", f'"{SECRET} "'), "tokens.yaml:2: auth.tokens[0].token: expected a bearer token, found text"),
        (entry("a") + entry("a", SECRET), "tokens.yaml:4: auth.tokens[1].name: expected a name of its own"),
        (entry("a", SECRET) + entry("b", SECRET), "tokens.yaml:4: auth.tokens[1]: expected a token of its own"),
        (entry("a").replace("name", "nam"), "tokens.yaml:1: auth.tokens[0].nam: unknown key; did you mean name?"),
        (f"- &{SECRET}\n  [", "tokens.yaml:2:4: is not valid YAML"),
        (" " * (CONFIG_FILE_BYTES_MAX + 1), f"tokens.yaml: is larger than {CONFIG_FILE_BYTES_MAX} bytes"),
    ],
)
def test_what_is_wrong_in_it_is_told_with_its_line_and_without_a_token(
    problems_of: Problems, tokens: Path, text: str | None, problem: str
) -> None:
    if text is not None:
        tokens.write_text(text)
    (found,) = problems_of(NAMED)
    assert found.startswith(problem)
    assert SECRET not in found


def test_a_name_that_is_no_path_is_refused_as_such(problems_of: Problems) -> None:
    (problem,) = problems_of('auth: {tokensFile: "~/tokens.yaml"}')
    assert problem.startswith("courier.yaml:1: auth.tokensFile: expected the path of a file, found text: ~ is")


def test_what_is_shown_names_the_file_and_loads_to_the_same(load_text: Load, tokens: Path) -> None:
    tokens.write_text(entry("b", SECRET))
    digest = "sha256:" + "0" * 64
    loaded = load_text(f"auth: {{tokensFile: tokens.yaml, tokens: [{{tokenHash: '{digest}', scopes: ['admin:*']}}]}}")
    assert len(loaded.config.auth.tokens) == 2
    for form in (as_yaml, as_json):
        assert SECRET not in form(loaded) + form(loaded, with_origin=True)
    assert load_text(as_yaml(loaded)).config == load_text(as_json(loaded)).config == loaded.config
