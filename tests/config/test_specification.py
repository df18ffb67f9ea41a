"""The configuration that the specification prints (003, §15 and §8.2) is valid exactly as it stands."""

import json

from broker.config import Action, Rate, StreamCaps, Token, Trigger, TriggerLimits, When
from tests.config.conftest import Load

SECTION_15 = """\
streams:
  defaultLeaseMs: 30000
  maxDepth: 100000
  perStreamCaps: { "agents/*": { maxDepth: 50000 } }
triggers:
  - { id: trig.jen.log.notify.architect, when: {type: sprint.log, from: agents/Jen/outbox}, do: [{action: notify, to: agents/architect/inbox}] }
auth:
  tokens:
    - { token: "dev-local", scopes: ["streams:*:enqueue","streams:*:subscribe","views:*:read"] }
"""  # noqa: E501 - as it is printed

SECTION_8_2 = """\
{
  "id":"trig.jen.log.notify.architect",
  "when": {"type":"sprint.log", "from":"agents/Jen/outbox"},
  "do": [{"action":"notify","to":"agents/architect/inbox",
          "payload":{"title":"Jen posted sprint log","ref":"${env.id}"}}],
  "limits": {"cooldownMs": 5000}
}
"""


def test_the_yaml_of_section_15_loads_as_it_stands(load_text: Load) -> None:
    loaded = load_text(SECTION_15)
    config = loaded.config
    assert config.streams.default_lease_ms == 30_000
    assert config.streams.max_depth == 100_000
    assert config.streams.per_stream_caps == {"agents/*": StreamCaps(max_depth=50_000)}
    assert config.triggers == (
        Trigger(
            id="trig.jen.log.notify.architect",
            when=When(type="sprint.log", from_="agents/Jen/outbox"),
            do=(Action(action="notify", to="agents/architect/inbox"),),
        ),
    )
    scopes = ("streams:*:enqueue", "streams:*:subscribe", "views:*:read")
    assert config.auth.tokens == (Token(token="dev-local", name="token-1", scopes=scopes),)
    assert loaded.origin['streams.perStreamCaps["agents/*"].maxDepth'] == "file courier.yaml:4"
    assert loaded.origin["auth.tokens[0].scopes[2]"] == "file courier.yaml:9"
    assert loaded.origin["auth.tokens[0].name"] == "default"


def test_the_json_rule_of_section_8_2_loads_as_it_stands(load_text: Load) -> None:
    (trigger,) = load_text(f'{{"triggers": [{SECTION_8_2}]}}').config.triggers
    assert trigger.limits == TriggerLimits(cooldown_ms=5_000)
    assert trigger.do[0].payload == {"title": "Jen posted sprint log", "ref": "${env.id}"}


def test_the_json_rule_of_section_8_2_loads_from_the_environment(load_text: Load) -> None:
    loaded = load_text("", {"COURIER_TRIGGERS": f"[{SECTION_8_2}]"})
    assert loaded.config.triggers[0].when == When(type="sprint.log", from_="agents/Jen/outbox")
    assert loaded.origin["triggers[0].do[0].payload.ref"] == "environment COURIER_TRIGGERS"


def test_every_shape_that_the_sections_allow_loads(load_text: Load) -> None:
    document = {
        "streams": {
            "perStreamCaps": {
                "**": {"leaseMs": 1000, "maxDeliveries": 3, "durability": "memory"},
                "agents/Jen/inbox": {"rate": {"perSecond": 0.5, "burst": 10}},
            }
        },
        "triggers": [
            {
                "id": "all",
                "when": {"to": "agents/*", "tags": ["sprint"], "headers": {"priority": "normal", "n": 1, "x": True}},
                "do": [
                    {"action": "route", "to": "copies"},
                    {"action": "notify", "to": "s", "payload": [None, True, 1, 1.5, "x", {"a": []}]},
                    {"action": "notify", "to": "copies", "type": "t", "tags": ["a"], "headers": {"b": "c"}},
                ],
            }
        ],
        "auth": {
            "tokens": [
                {
                    "tokenHash": "sha256:" + "0" * 64,
                    "name": "plugin",
                    "scopes": [
                        "streams:agents/Jen/inbox:enqueue",
                        "streams:pixel/**:subscribe",
                        "views:latestPerAgent:read",
                        "devices:*",
                        "admin:*",
                    ],
                    "rate": {"perSecond": 100, "burst": 200},
                }
            ]
        },
    }
    config = load_text(json.dumps(document)).config
    assert config.streams.per_stream_caps["agents/Jen/inbox"].rate == Rate(per_second=0.5, burst=10)
    assert config.triggers[0].do[1].payload == [None, True, 1, 1.5, "x", {"a": []}]
    assert config.auth.tokens[0].rate == Rate(per_second=100.0, burst=200)
