"""What `show` prints loads again to the same configuration."""

import json
from pathlib import Path

import yaml

from broker.config import load
from broker.config.show import as_json, as_yaml
from tests.config.conftest import Load
from tests.config.test_specification import SECTION_8_2

EVERYTHING = f"""
server: {{port: 0, allowedHosts: [a, "b:1"], allowedOrigins: ["https://a"]}}
data: "/var/lib/\U0001f600 \\u2028 # no comment"
journal: {{synchronous: normal, retention: {{maxAgeSeconds: 3600}}}}
streams:
  autoCreate: false
  perStreamCaps:
    agents/*: {{maxDepth: 5, rate: {{perSecond: 0.25, burst: 3}}}}
    "null": {{durability: memory}}
    "1": {{}}
triggers:
  - {SECTION_8_2.replace(chr(10), " ")}
  - id: "yes"
    when: {{tags: [a], headers: {{true: "x", n: 1}}, from: "123"}}
    do:
    - {{action: notify, to: s, payload: [[1, [2, {{}}]], [], {{"a b": null, c: {{d: "- x: 1"}}}}, 1e300, "", "\\x7f"]}}
auth: {{tokens: [{{tokenHash: "sha256:{"0" * 64}", scopes: ["admin:*", "streams:*:enqueue"]}}]}}
log: {{level: debug, format: json}}
effects: [a.py]
sources:
  rest:
    - {{name: a, stream: s, url: "http://h/?{{cursor}}", nextCursor: "/a b", headers: {{X: "${{env:Y}}"}}, items: ""}}
  websocket: [{{name: b, stream: s, url: "ws://h", firstMessage: "{{cursor}}", cursor: "", firstCursor: "\u2028"}}]
""".replace("true: ", '"true": ')


def test_what_is_shown_as_yaml_loads_to_the_same_configuration(load_text: Load) -> None:
    loaded = load_text(EVERYTHING)
    assert load_text(as_yaml(loaded)).config == loaded.config
    assert load_text(as_yaml(loaded, with_origin=True)).config == loaded.config


def test_what_is_shown_as_json_loads_to_the_same_configuration(load_text: Load) -> None:
    loaded = load_text(EVERYTHING)
    assert load_text(as_json(loaded)).config == loaded.config


def test_a_reader_of_yaml_1_1_gets_the_same_values(load_text: Load) -> None:
    loaded = load_text(EVERYTHING.replace("1e300", "1.5"))
    assert yaml.safe_load(as_yaml(loaded)) == json.loads(as_json(loaded))


def test_the_origin_of_every_value_is_a_trailing_comment(load_text: Load) -> None:
    loaded = load_text("server:\n  port: 1\n", {"COURIER_LOG__LEVEL": "debug"}, {"data": "/x"})
    lines = as_yaml(loaded, with_origin=True).splitlines()
    assert "  port: 1  # file courier.yaml:2" in lines
    assert '  level: "debug"  # environment COURIER_LOG__LEVEL' in lines
    assert 'data: "/x"  # flag --data' in lines
    assert '  host: "127.0.0.1"  # default' in lines
    assert "#" not in as_yaml(loaded)
    assert json.loads(as_json(loaded, with_origin=True))["origin"]["server.port"] == "file courier.yaml:2"


def test_every_value_has_an_origin_and_every_origin_a_value(load_text: Load) -> None:
    loaded = load_text(EVERYTHING)
    commented = [line for line in as_yaml(loaded, with_origin=True).splitlines() if not line.endswith(":")]
    assert len(commented) == len(loaded.origin)
    assert all("  # file courier.yaml:" in line or line.endswith("  # default") for line in commented)


def test_the_example_file_holds_the_defaults_and_its_suggestions_load(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "courier.example.yaml"
    defaults = load(None, {}, {})
    loaded = load(example, {}, {})
    assert loaded.config == defaults.config
    assert loaded.keys_not_yet_active() == {}
    suggestions = tmp_path / "courier.yaml"
    lines = example.read_text(encoding="utf-8").splitlines()
    suggestions.write_text("\n".join(uncommented(line) for line in lines))
    suggested = load(suggestions, {}, {})
    assert suggested.config.triggers
    assert suggested.config.auth.tokens
    assert suggested.config.streams.per_stream_caps
    named = {key.split("[")[0] for key in suggested.keys_set()}
    assert {key for key in defaults.origin if key not in named} == set()


def uncommented(line: str) -> str:
    """In the example a setting to uncomment has its # right before it; prose has a space between."""
    start = line.lstrip()
    is_setting = start.startswith("#") and not start.startswith(("# ", "##")) and start != "#"
    return line.replace("#", "", 1) if is_setting else line
