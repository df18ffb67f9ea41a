"""A plain token is nowhere but in the field that holds it."""

import json

import pytest

from broker.config.show import as_json, as_yaml
from tests.config.conftest import Load, Problems

SECRET = "hunter2-hunter2"


def token(text: str) -> str:
    return f"auth:\n  tokens:\n  - token: {text}\n    scopes: ['admin:*']"


def test_a_token_is_masked_wherever_the_configuration_is_shown(load_text: Load) -> None:
    loaded = load_text(token(SECRET))
    assert loaded.config.auth.tokens[0].token == SECRET
    assert 'token: "***"  # file courier.yaml:3\n' in as_yaml(loaded, with_origin=True)
    assert json.loads(as_json(loaded))["auth"]["tokens"][0]["token"] == "***"
    shown = [
        as_yaml(loaded),
        as_yaml(loaded, with_origin=True),
        as_json(loaded),
        as_json(loaded, with_origin=True),
        repr(loaded),
        str(loaded.config),
        repr(loaded.config.auth.tokens[0].__rich_repr__()),
    ]
    assert not [text for text in shown if SECRET in text]


def test_a_hash_is_shown_because_it_is_no_secret(load_text: Load) -> None:
    digest = "sha256:" + "ab" * 32
    loaded = load_text(f"auth: {{tokens: [{{tokenHash: '{digest}', scopes: ['admin:*']}}]}}")
    assert f'tokenHash: "{digest}"' in as_yaml(loaded)
    assert "token=None" in repr(loaded.config.auth.tokens[0])


def test_the_mask_is_no_token(problems_of: Problems) -> None:
    """Else whoever loads what `show` printed would have a token that everybody knows."""
    (problem,) = problems_of(token('"***"'))
    reason = "it is the mask that `courier config show` prints in place of a token"
    assert problem == f"courier.yaml:3: auth.tokens[0].token: expected a bearer token, found text: {reason}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (token(f'"{SECRET} "'), "auth.tokens[0].token: expected a bearer token, found text: it is empty, or has"),
        (token(SECRET * 50), "auth.tokens[0].token: expected a bearer token, found text: it is longer than 512 bytes"),
        (token("123456789"), "auth.tokens[0].token: expected a bearer token or null, found an integer"),
        (token("1234.56789"), "auth.tokens[0].token: expected a bearer token or null, found a number"),
        (token(f"[{SECRET}]"), "auth.tokens[0].token: expected a bearer token or null, found a list"),
        (f"auth:\n  tokens:\n  - {SECRET}", "auth.tokens[0]: expected a mapping, found text"),
        (f"auth: {SECRET}", "auth: expected a mapping, found text"),
        (
            f"auth: {{tokens: [{{tokenHash: {SECRET}, scopes: ['admin:*']}}]}}",
            "auth.tokens[0].tokenHash: expected the SHA-256 of a token, found text: write sha256:",
        ),
        (f"auth:\n\n  tokens: {SECRET}", "auth.tokens: expected a list, found text"),
        (token(f"*{SECRET}"), "is not valid YAML: found undefined alias"),
        (token(f"!{SECRET}"), "auth.tokens[0].token: has a tag; only plain values, lists and mappings are known"),
        (token(f"&{SECRET}"), "auth.tokens[0]: expected either token or tokenHash, found neither"),
    ],
)
def test_a_refusal_does_not_repeat_what_may_be_a_token(problems_of: Problems, text: str, problem: str) -> None:
    (found,) = problems_of(text)
    assert problem in found
    assert SECRET not in found
    assert "123" not in found


@pytest.mark.parametrize("text", [SECRET, f'[{{"token": "{SECRET}', f'["{SECRET}"]', f'[{{"token": ["{SECRET}"]}}]'])
def test_a_refusal_of_a_variable_does_not_repeat_it_either(problems_of: Problems, text: str) -> None:
    problems = problems_of("", {"COURIER_AUTH__TOKENS": text})
    assert problems
    assert SECRET not in "\n".join(problems)
