"""Tokens, principals and scopes."""

import hashlib

import pytest

from broker.admission.auth import API_KEY_HEADER, LOCAL, Authenticator, Principal
from broker.config import Auth, Token
from broker.errors import Forbidden, Unauthorized


@pytest.mark.parametrize(
    ("scope", "covered", "not_covered"),
    [
        (
            "streams:agents/Jen/inbox:enqueue",
            ["agents/Jen/inbox"],
            ["agents/Jen", "agents/Jen/inbox/x", "agents/Jo/inbox"],
        ),
        ("streams:*:enqueue", ["a", "a/b", "a/b/c/d/e/f/g/h"], []),
        ("streams:**:enqueue", ["a", "a/b"], []),
        ("streams:agents/*:enqueue", ["agents/Jen"], ["agents", "agents/Jen/inbox", "other/Jen"]),
        ("streams:agents/**:enqueue", ["agents/Jen", "agents/Jen/inbox"], ["agents", "other"]),
        ("streams:*/*/inbox:enqueue", ["agents/Jen/inbox"], ["agents/inbox", "agents/Jen/outbox"]),
    ],
)
def test_a_scope_covers_what_its_pattern_selects_and_nothing_else(
    scope: str, covered: list[str], not_covered: list[str]
) -> None:
    principal = Principal("p", (scope,))
    assert all(principal.may("streams", name, "enqueue") for name in covered)
    assert not any(principal.may("streams", name, "enqueue") for name in not_covered)
    assert not any(principal.may("streams", name, "subscribe") for name in covered)
    assert not any(principal.may("views", name, "enqueue") for name in covered)


def test_one_scope_of_several_is_enough() -> None:
    principal = Principal("p", ("streams:a:enqueue", "streams:b:subscribe", "views:*:read", "admin:*"))
    principal.check_stream("a", "enqueue")
    principal.check_stream("b", "subscribe")
    with pytest.raises(Forbidden) as refused:
        principal.check_stream("b", "enqueue")
    assert refused.value.message == "the token 'p' lacks the scope streams:b:enqueue"


def test_scopes_of_another_form_give_no_stream() -> None:
    principal = Principal("p", ("admin:*", "devices:*", "views:*:read"))
    assert not any(principal.may("streams", "a", action) for action in ("enqueue", "subscribe", "read", "*"))


def test_without_tokens_everybody_is_local_and_may_use_every_stream() -> None:
    authenticator = Authenticator(Auth())
    assert not authenticator.has_tokens
    for headers in ({}, {"Authorization": "Bearer whatever"}, {API_KEY_HEADER: "x"}):
        principal = authenticator.principal(headers)
        assert principal.name == LOCAL
        principal.check_stream("any/stream", "enqueue")
        principal.check_stream("any/stream", "subscribe")


@pytest.fixture
def authenticator() -> Authenticator:
    digest = hashlib.sha256(b"hashed-secret").hexdigest()
    scopes = ("streams:*:enqueue",)
    tokens = (
        Token(token="plain-secret", scopes=scopes, name="plain"),
        Token(token_hash=f"sha256:{digest}", scopes=scopes, name="hashed"),
        Token(token="nameless-secret", scopes=scopes),
    )
    return Authenticator(Auth(tokens=tokens))


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"Authorization": "Bearer plain-secret"}, "plain"),
        ({"Authorization": "bearer plain-secret"}, "plain"),
        ({"Authorization": "BEARER hashed-secret"}, "hashed"),
        ({API_KEY_HEADER: "plain-secret"}, "plain"),
        ({API_KEY_HEADER: "hashed-secret"}, "hashed"),
        ({"Authorization": "Basic abc", API_KEY_HEADER: "hashed-secret"}, "hashed"),
        ({"Authorization": "Bearer plain-secret", API_KEY_HEADER: "hashed-secret"}, "plain"),
        ({"Authorization": "Bearer nameless-secret"}, "token-3"),
    ],
)
def test_a_known_token_names_its_principal(authenticator: Authenticator, headers: dict[str, str], name: str) -> None:
    assert authenticator.has_tokens
    assert authenticator.principal(headers).name == name


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "a token is needed"),
        ({"Authorization": "Bearer"}, "a token is needed"),
        ({"Authorization": "Bearer "}, "a token is needed"),
        ({"Authorization": "Basic plain-secret"}, "a token is needed"),
        ({"Authorization": "plain-secret"}, "a token is needed"),
        ({API_KEY_HEADER: ""}, "a token is needed"),
        ({"Authorization": "Bearer wrong"}, "this token is not known"),
        ({"Authorization": "Bearer plain-secret "}, "this token is not known"),
        ({"Authorization": "Bearer  plain-secret"}, "this token is not known"),
        ({"Authorization": "Bearer PLAIN-SECRET"}, "this token is not known"),
        ({"Authorization": "Bearer wrong", API_KEY_HEADER: "plain-secret"}, "this token is not known"),
        ({"Authorization": f"Bearer {hashlib.sha256(b'hashed-secret').hexdigest()}"}, "this token is not known"),
        ({"Authorization": f"Bearer sha256:{hashlib.sha256(b'hashed-secret').hexdigest()}"}, "this token is not known"),
        ({"Authorization": "Bearer \udcff"}, "this token is not known"),
        ({API_KEY_HEADER: "é"}, "this token is not known"),
    ],
)
def test_without_a_known_token_nobody_is_let_in(
    authenticator: Authenticator, headers: dict[str, str], message: str
) -> None:
    with pytest.raises(Unauthorized) as refused:
        authenticator.principal(headers)
    assert refused.value.message.startswith(message)
    assert "secret" not in refused.value.message
