"""What is refused, to the letter: where it was said, the key, what was expected and what was found."""

# ruff: noqa: E501 - one case a line
import pytest

from tests.config.conftest import Load, Problems

HASH = "sha256:" + "0" * 64

VALUES = [
    ("streams:\n  x: 1", 'courier.yaml:2: streams.x: unknown key; expected defaultLeaseMs, maxDepth, maxDeliveries, autoCreate, durability or perStreamCaps'),
    ("streams:\n\n\n  maxDepht: 1", "courier.yaml:4: streams.maxDepht: unknown key; did you mean maxDepth?"),
    ("sever: {}", "courier.yaml:1: sever: unknown key; did you mean server?"),
    ("server:\n  max_body_bytes: 1", "courier.yaml:2: server.max_body_bytes: unknown key; did you mean maxBodyBytes?"),
    ('server: {"a\\nb": 1}', 'courier.yaml:1: server["a\\nb"]: unknown key; expected host, port, drainMs, maxBodyBytes, maxConnections, readTimeoutMs, allowedHosts or allowedOrigins'),
    ("server: 5", "courier.yaml:1: server: expected a mapping, found 5"),
    ("server:", "courier.yaml:1: server: expected a mapping, found null"),
    ("server: []", "courier.yaml:1: server: expected a mapping, found an empty list"),
    ("server: {port: '8787'}", 'courier.yaml:1: server.port: expected an integer between 0 and 65535, found "8787"'),
    ("server: {port: true}", "courier.yaml:1: server.port: expected an integer between 0 and 65535, found true"),
    ("server: {port: 1.0}", "courier.yaml:1: server.port: expected an integer between 0 and 65535, found 1.0"),
    ("server: {port: .inf}", "courier.yaml:1: server.port: expected an integer between 0 and 65535, found inf"),
    ("server: {port: null}", "courier.yaml:1: server.port: expected an integer between 0 and 65535, found null"),
    ("server: {port: 0x50}", 'courier.yaml:1: server.port: expected an integer between 0 and 65535, found "0x50"'),
    ("server: {port: 0123}", 'courier.yaml:1: server.port: expected an integer between 0 and 65535, found "0123"'),
    ("server: {port: 99999999999999999999}", "courier.yaml:1: server.port: expected an integer between 0 and 65535, found an integer of more than 64 bits"),
    ("server: {host: ''}", 'courier.yaml:1: server.host: expected an IP address or a host name, found "": it is empty'),
    ("server: {host: '[::1]'}", 'courier.yaml:1: server.host: expected an IP address or a host name, found "[::1]": an IPv6 address is written without brackets here'),
    ("server: {host: a b}", 'courier.yaml:1: server.host: expected an IP address or a host name, found "a b": it is neither'),
    ("server: {host: 5}", "courier.yaml:1: server.host: expected an IP address or a host name, found 5"),
    ("server: {allowedHosts: x}", 'courier.yaml:1: server.allowedHosts: expected a list, found "x"'),
    ("server: {allowedHosts: {}}", "courier.yaml:1: server.allowedHosts: expected a list, found a mapping"),
    ("data: ''", 'courier.yaml:1: data: expected the path of a directory, found "": it is empty'),
    ("data: ~/x", 'courier.yaml:1: data: expected the path of a directory, found "~/x": ~ is not expanded here; write the whole path'),
    ('data: "a\\0b"', 'courier.yaml:1: data: expected the path of a directory, found "a\\u0000b": it has a control character at position 2'),
    ("journal: {synchronous: off}", 'courier.yaml:1: journal.synchronous: expected "full" or "normal", found "off"'),
    ("journal: {retention: {maxBytes: 1}}", "courier.yaml:1: journal.retention.maxBytes: expected an integer between 1048576 and 1125899906842624 or null, found 1"),
    ("streams: {autoCreate: yes}", 'courier.yaml:1: streams.autoCreate: expected true or false, found "yes"'),
    ("streams: {autoCreate: 1}", "courier.yaml:1: streams.autoCreate: expected true or false, found 1"),
    ("streams: {perStreamCaps: []}", "courier.yaml:1: streams.perStreamCaps: expected a mapping, found an empty list"),
    ("streams:\n  perStreamCaps:\n    agents/*:\n      maxDepth: 0", 'courier.yaml:4: streams.perStreamCaps["agents/*"].maxDepth: expected an integer between 1 and 10000000 or null, found 0'),
    ("streams: {perStreamCaps: {'**/a': {}}}", 'courier.yaml:1: streams.perStreamCaps["**/a"]: expected a stream pattern, found "**/a": segment 1 is **, which may only come last'),
    ("streams: {perStreamCaps: {a: {rate: {burst: 1}}}}", "courier.yaml:1: streams.perStreamCaps.a.rate.perSecond: missing; expected a number between 0.001 and 1000000"),
    ("streams: {perStreamCaps: {a: {rate: {burst: 1, perSecond: .nan}}}}", "courier.yaml:1: streams.perStreamCaps.a.rate.perSecond: expected a number between 0.001 and 1000000, found nan"),
    ("streams: {perStreamCaps: {a: {rate: {burst: 1, perSecond: 1e999}}}}", "courier.yaml:1: streams.perStreamCaps.a.rate.perSecond: expected a number between 0.001 and 1000000, found inf"),
    ("streams: {perStreamCaps: {a: {rate: 5}}}", "courier.yaml:1: streams.perStreamCaps.a.rate: expected a mapping or null, found 5"),
    ("triggers: {}", "courier.yaml:1: triggers: expected a list, found a mapping"),
    ("triggers:\n- 5", "courier.yaml:2: triggers[0]: expected a mapping, found 5"),
    ("triggers:\n- when: {}\n  do:\n  - action: notify\n    to: s", "courier.yaml:2: triggers[0].id: missing; expected an id"),
    ("triggers: [{id: a, when: {}, do: []}]", "courier.yaml:1: triggers[0].do: expected a list with at least one entry, found an empty list"),
    ("triggers: [{id: a, when: {}, do: [{action: run}]}]", 'courier.yaml:1: triggers[0].do[0].action: expected "enrich", "notify" or "route", found "run"'),
    ("triggers: [{id: a, when: {}, do: [{action: route, to: 'a/*'}]}]", 'courier.yaml:1: triggers[0].do[0].to: expected the name of a stream, found "a/*": segment 2 has a character outside A-Z a-z 0-9 . _ -'),
    ("triggers: [{id: a, when: {type: 'a.**.b'}, do: [{action: route, to: s}]}]", 'courier.yaml:1: triggers[0].when.type: expected a pattern of event types, found "a.**.b": part 2 is **, which may only come last'),
    ("triggers: [{id: a, when: {type: 'a*'}, do: [{action: route, to: s}]}]", 'courier.yaml:1: triggers[0].when.type: expected a pattern of event types, found "a*": part 1 mixes * with text; * and ** stand for whole parts'),
    ("triggers: [{id: a, when: {}, do: [{action: notify, to: s, type: '${env.a'}]}]", 'courier.yaml:1: triggers[0].do[0].type: expected an event type, found "${env.a": a ${ has no }; write $${ for a plain ${'),
    ("triggers: [{id: a, when: {headers: {a: []}}, do: [{action: notify, to: s}]}]", "courier.yaml:1: triggers[0].when.headers.a: expected text, an integer, a number or true or false, found an empty list"),
    ("triggers: [{id: a, when: {}, do: [{action: notify, to: s, payload: {a: [.nan]}}]}]", "courier.yaml:1: triggers[0].do[0].payload.a[0]: expected a JSON value, found nan"),
    ("triggers: [{id: a, when: {}, do: [{action: notify, to: s, payload: {'': 1}}]}]", 'courier.yaml:1: triggers[0].do[0].payload[""]: expected a key, found "": it is empty'),
    ("auth: {tokens: [{tokenHash: abc, scopes: ['admin:*']}]}", 'courier.yaml:1: auth.tokens[0].tokenHash: expected the SHA-256 of a token, found text: write sha256: and 64 hexadecimal digits in lower case'),
    ("auth: {tokens: [{token: a, scopes: []}]}", "courier.yaml:1: auth.tokens[0].scopes: expected a list with at least one entry, found an empty list"),
    ("auth: {tokens: [{token: a, scopes: ['admin:*'], name: 'a:b'}]}", 'courier.yaml:1: auth.tokens[0].name: expected the name of a principal, found "a:b": it has a colon'),
    ("auth: {tokens: [{token: a, scopes: ['admin:*'], name: ''}]}", 'courier.yaml:1: auth.tokens[0].name: expected the name of a principal, found "": it is empty'),
    ("log: {level: Info}", 'courier.yaml:1: log.level: expected "debug", "error", "info" or "warning", found "Info"'),
]  # fmt: skip

RELATIONS = [
    ("journal:\n  queueMax: 95001", "courier.yaml:2: journal.dedupeEntries: expected at least journal.queueMax + 5000 = 100001, so that all that is in flight is remembered, found 100000"),
    ("journal:\n  queueMax: 5000\n  dedupeEntries: 9999", "courier.yaml:3: journal.dedupeEntries: expected at least journal.queueMax + 5000 = 10000, so that all that is in flight is remembered, found 9999"),
    ("server: {host: 0.0.0.0}", 'courier.yaml:1: server.host: expected localhost or a loopback address, because there are no auth.tokens, found "0.0.0.0"'),
    ("triggers:\n- {id: a, when: {}, do: [{action: notify, to: s}]}\n- {id: a, when: {}, do: [{action: notify, to: s}]}", "courier.yaml:3: triggers[1].id: expected an id of its own, found that of triggers[0].id"),
    ("triggers: [{id: a, when: {}, do: [{action: enrich}]}]", "courier.yaml:1: triggers[0].do[0]: expected tags or headers to add, found neither"),
    ("triggers: [{id: a, when: {}, do: [{action: enrich, tags: [t], payload: 1}]}]", "courier.yaml:1: triggers[0].do[0].payload: enrich has no payload; it knows headers, tags"),
    ("triggers: [{id: a, when: {}, do: [{action: route, to: s, type: t}]}]", "courier.yaml:1: triggers[0].do[0].type: route has no type; it knows to"),
    ("triggers: [{id: a, when: {}, do: [{action: enrich, headers: {x-cause: 1}}]}]", 'courier.yaml:1: triggers[0].do[0].headers["x-cause"]: expected another header; this one tells of causes'),
    ("triggers: [{id: a, when: {}, do: [{action: notify, to: s, payload: {a: ['${nope}']}}]}]", "courier.yaml:1: triggers[0].do[0].payload.a[0]: '${nope}' is no field; write ${env.NAME}, or $${ for a plain ${"),
    ("triggers: [{id: a, when: {}, do: [{action: notify, to: s}], limits: {cooldownKey: x}}]", "courier.yaml:1: triggers[0].limits.cooldownMs: missing; limits.cooldownKey needs a cooldown"),
    ("triggers: [{id: a, when: {}, do: [{action: notify}]}]", "courier.yaml:1: triggers[0].do[0].to: missing; notify needs the name of a stream"),
    ("auth: {tokens: [{scopes: ['admin:*']}]}", "courier.yaml:1: auth.tokens[0]: expected either token or tokenHash, found neither"),
    (f"auth: {{tokens: [{{scopes: ['admin:*'], token: a, tokenHash: '{HASH}'}}]}}", "courier.yaml:1: auth.tokens[0]: expected either token or tokenHash, found both"),
    ("auth:\n  tokens:\n  - {scopes: ['admin:*'], token: a, name: x}\n  - {scopes: ['admin:*'], token: b, name: x}", "courier.yaml:4: auth.tokens[1].name: expected a name of its own, found that of auth.tokens[0].name"),
    ("auth:\n  tokens:\n  - {scopes: ['admin:*'], token: a, name: token-2}\n  - {scopes: ['admin:*'], token: b}", "courier.yaml:4: auth.tokens[1].name: expected a name of its own, found that of auth.tokens[0].name"),
    ("auth:\n  tokens:\n  - {scopes: ['admin:*'], token: a}\n  - {scopes: ['admin:*'], token: a}", "courier.yaml:4: auth.tokens[1]: expected a token of its own, found that of auth.tokens[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), VALUES)
def test_an_unfit_value_is_refused_with_its_place_and_what_was_expected(
    problems_of: Problems, text: str, problem: str
) -> None:
    assert problems_of(text) == [problem]


@pytest.mark.parametrize(("text", "problem"), RELATIONS)
def test_an_impossible_relation_is_refused(problems_of: Problems, text: str, problem: str) -> None:
    assert problems_of(text) == [problem]


def test_every_problem_is_told_at_once(problems_of: Problems) -> None:
    text = "log: {level: x}\nserver:\n  port: -1\n  prot: 1\njournal: {queueMax: 1000000, lingerMs: -1}"
    assert problems_of(text, {"COURIER_DAAT": "x"}, {"server.drainMs": -1}) == [
        "COURIER_DAAT: unknown variable; did you mean COURIER_DATA?",
        'courier.yaml:1: log.level: expected "debug", "error", "info" or "warning", found "x"',
        "courier.yaml:3: server.port: expected an integer between 0 and 65535, found -1",
        "courier.yaml:4: server.prot: unknown key; did you mean port?",
        "--drain-ms: server.drainMs: expected an integer between 100 and 600000, found -1",
        "courier.yaml:5: journal.lingerMs: expected an integer between 0 and 1000, found -1",
        "courier.yaml:5: journal.dedupeEntries: expected at least journal.queueMax + 5000 = 1005000, so that all that is in flight is remembered, found 100000",
    ]


def test_a_relation_with_a_value_that_was_refused_is_not_reported_as_well(problems_of: Problems) -> None:
    (problem,) = problems_of("journal: {queueMax: x, dedupeEntries: 5001}")
    assert problem == 'courier.yaml:1: journal.queueMax: expected an integer between 1 and 1000000, found "x"'


def test_a_long_value_is_cut_in_the_message(problems_of: Problems) -> None:
    (problem,) = problems_of(f"log: {{level: {'x' * 10_000}}}")
    assert problem.endswith(f'found "{"x" * 80}…"')


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_a_loopback_host_needs_no_tokens(load_text: Load, host: str) -> None:
    assert load_text(f"server: {{host: '{host}'}}").config.server.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "broker.example", "0", "127.1"])
def test_any_other_host_needs_tokens(load_text: Load, problems_of: Problems, host: str) -> None:
    tokens = "auth: {tokens: [{token: a, scopes: ['admin:*']}]}"
    assert "because there are no auth.tokens" in problems_of(f"server: {{host: '{host}'}}")[0]
    assert load_text(f"server: {{host: '{host}'}}\n{tokens}").config.server.host == host
