"""Hosts, origins and scopes: what is taken, and what is refused."""

import pytest

from broker.config.grammar import authority_problem, host_problem, is_loopback, origin_problem, scope_problem


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "::1", "0.0.0.0", "fe80::1%eth0", "localhost", "a.example", "a.example."]
)
def test_a_host_is_an_address_or_a_name(host: str) -> None:
    assert host_problem(host) is None


@pytest.mark.parametrize("host", ["", "*", "a b", "-a", "a..b", "http://a", "a:1", "[::1]", "::1%\n", "a" * 254, "é"])
def test_anything_else_is_no_host(host: str) -> None:
    assert host_problem(host)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.255.0.1", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.1", "0", "")],
)
def test_only_what_is_certain_to_stay_on_this_machine_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("authority", ["a", "a:1", "a.example:65535", "127.0.0.1", "[::1]", "[::1]:8787"])
def test_an_allowed_host_is_exact(authority: str) -> None:
    assert authority_problem(authority) is None


@pytest.mark.parametrize(
    "authority", ["", "*", "A", "a:", "a:0", "a:65536", "a:123456", "::1", "[x]", "[:]", "a/", "a\n"]
)
def test_an_allowed_host_that_could_never_match_is_refused(authority: str) -> None:
    assert authority_problem(authority)


@pytest.mark.parametrize("origin", ["https://a", "http://localhost:3000", "http://[::1]:8080", "tauri://localhost"])
def test_an_allowed_origin_is_exact(origin: str) -> None:
    assert origin_problem(origin) is None


@pytest.mark.parametrize(
    "origin", ["", "*", "null", "a", "https://", "https://a/", "https://A", "HTTPS://a", "https://*.a", "https://a:443"]
)
def test_an_allowed_origin_that_could_never_match_is_refused(origin: str) -> None:
    assert origin_problem(origin)


@pytest.mark.parametrize(
    "scope",
    [
        "streams:agents/Jen/inbox:enqueue",
        "streams:*:subscribe",
        "streams:**:subscribe",
        "streams:agents/*/inbox:enqueue",
        "views:*:read",
        "views:latestPerAgent:read",
        "devices:*",
        "devices:pi/**",
        "admin:*",
    ],
)
def test_a_scope_of_a_known_form_is_taken(scope: str) -> None:
    assert scope_problem(scope) is None


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "*",
        "admin",
        "admin:read",
        "streams:*",
        "streams::enqueue",
        "streams:*:delete",
        "streams:a:b:enqueue",
        "streams:a*:enqueue",
        "views::read",
        "views:a/b:read",
        "views:*:write",
        "devices:",
        "Streams:*:enqueue",
        "admin:*\n",
    ],
)
def test_a_scope_of_any_other_form_is_refused(scope: str) -> None:
    assert scope_problem(scope)
