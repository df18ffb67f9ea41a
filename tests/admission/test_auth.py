"""Tokens, principals and scopes."""

import hashlib

import pytest

from broker.admission.auth import API_KEY_HEADER, LOCAL, Authenticator, Principal
from broker.config import Auth, Token
from broker.errors import Forbidden, Unauthorized
from broker.limits import GRANTS_REMEMBERED_MAX, STREAM_NAME_BYTES_MAX


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


@pytest.mark.parametrize(
    ("scope", "covered", "not_covered"),
    [
        ("devices:*", ["pi", "kitchen/pi"], []),
        ("devices:pi", ["pi"], ["pi-2", "kitchen/pi"]),
        ("devices:kitchen/*", ["kitchen/pi"], ["kitchen", "kitchen/a/b", "hall/pi"]),
        ("devices:kitchen/**", ["kitchen/pi", "kitchen/a/b"], ["kitchen"]),
        ("admin:*", [], ["pi", "*"]),
        ("streams:**:enqueue", [], ["pi"]),
    ],
)
def test_a_token_speaks_for_the_devices_of_its_pattern(scope: str, covered: list[str], not_covered: list[str]) -> None:
    principal = Principal("p", (scope,))
    for device in covered:
        principal.check_device(device)
    for device in not_covered:
        with pytest.raises(Forbidden, match="lacks the scope devices:"):
            principal.check_device(device)


def test_views_and_administration_have_scopes_of_their_own() -> None:
    nobody, viewer, operator = (
        Principal("p", scopes) for scopes in (("streams:**:enqueue",), ("views:latest:read",), ("admin:*",))
    )
    viewer.check_view("latest")
    Principal("p", ("views:*:read",)).check_view("any")
    operator.check_admin()
    assert [principal.may_admin() for principal in (nobody, viewer, operator)] == [False, False, True]
    for principal, view in ((nobody, "latest"), (viewer, "other"), (operator, "latest")):
        with pytest.raises(Forbidden, match=f"the token 'p' lacks the scope views:{view}:read"):
            principal.check_view(view)
    for principal in (nobody, viewer):
        with pytest.raises(Forbidden, match=r"the token 'p' lacks the scope admin:\*"):
            principal.check_admin()


def test_without_tokens_everybody_is_local_and_may_use_every_stream() -> None:
    authenticator = Authenticator(Auth())
    assert not authenticator.has_tokens
    for headers in ({}, {"Authorization": "Bearer whatever"}, {API_KEY_HEADER: "x"}):
        principal = authenticator.principal(headers)
        assert principal.name == LOCAL
        principal.check_stream("any/stream", "enqueue")
        principal.check_stream("any/stream", "subscribe")
        principal.check_view("any")
        principal.check_admin()


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


def known(**tokens: tuple[str, ...]) -> Auth:
    return Auth(
        tokens=tuple(Token(token=f"{name}-secret", scopes=scopes, name=name) for name, scopes in tokens.items())
    )


def test_after_the_tokens_were_replaced_the_old_callers_are_objected_to_unless_nothing_changed_for_them() -> None:
    authenticator = Authenticator(known(same=("admin:*",), changed=("admin:*",), gone=("admin:*",)))
    callers = {
        name: authenticator.principal({API_KEY_HEADER: f"{name}-secret"}) for name in ("same", "changed", "gone")
    }
    assert [authenticator.objection(caller) for caller in callers.values()] == [None, None, None]
    authenticator.replace_tokens(known(new=("admin:*",), same=("admin:*",), changed=("views:*:read",)))
    objections = {name: authenticator.objection(caller) for name, caller in callers.items()}
    assert objections["same"] is None
    assert isinstance(objections["changed"], Forbidden)
    assert isinstance(objections["gone"], Unauthorized)
    assert authenticator.principal({API_KEY_HEADER: "same-secret"}) is callers["same"]
    with pytest.raises(Unauthorized):
        authenticator.principal({API_KEY_HEADER: "gone-secret"})


def test_a_token_whose_secret_was_changed_is_not_the_same_caller() -> None:
    authenticator = Authenticator(known(name=("admin:*",)))
    caller = authenticator.principal({API_KEY_HEADER: "name-secret"})
    authenticator.replace_tokens(Auth(tokens=(Token(token="another", scopes=("admin:*",), name="name"),)))
    assert isinstance(authenticator.objection(caller), Unauthorized)


def test_who_came_without_a_token_is_objected_to_when_there_are_tokens() -> None:
    authenticator = Authenticator(Auth())
    local = authenticator.principal({})
    assert authenticator.objection(local) is None
    authenticator.replace_tokens(known(name=("admin:*",)))
    assert isinstance(authenticator.objection(local), Unauthorized)


def test_whoever_revokes_the_last_token_does_not_let_everybody_in() -> None:
    authenticator = Authenticator(known(name=("admin:*",)))
    caller = authenticator.principal({API_KEY_HEADER: "name-secret"})
    authenticator.replace_tokens(Auth())
    assert authenticator.has_tokens
    assert isinstance(authenticator.objection(caller), Unauthorized)
    for headers in ({}, {API_KEY_HEADER: "name-secret"}):
        with pytest.raises(Unauthorized):
            authenticator.principal(headers)


def test_what_was_granted_is_remembered_up_to_a_bound_and_nothing_else_is_granted() -> None:
    principal = Principal("p", ("streams:a/**:enqueue",))
    remembered = principal._granted
    for number in range(GRANTS_REMEMBERED_MAX):
        principal.check_stream(f"a/{number}", "enqueue")
    assert len(remembered["enqueue"]) == GRANTS_REMEMBERED_MAX
    principal.check_stream("a/0", "enqueue")
    assert len(remembered["enqueue"]) == GRANTS_REMEMBERED_MAX
    principal.check_stream("a/one more", "enqueue")
    assert remembered["enqueue"] == {"a/one more"}
    longest = "a/".ljust(STREAM_NAME_BYTES_MAX, "x")
    principal.check_stream(longest, "enqueue")
    principal.check_stream(longest + "x", "enqueue")
    assert remembered["enqueue"] == {"a/one more", longest}
    for stream, action in (("b", "enqueue"), ("a/0", "subscribe")):
        for _ in range(2):
            with pytest.raises(Forbidden):
                principal.check_stream(stream, action)
