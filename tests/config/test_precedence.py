"""A flag beats the environment, which beats the file, which beats the default."""

# ruff: noqa: E501 - one case a line

from pathlib import Path

import pytest

from broker.config import Config, keys, load
from broker.config.keys import environment_name, flag_name, settable_keys
from broker.errors import ConfigError
from broker.limits import JSON_DEPTH_MAX
from tests.config.conftest import Load, Problems

FILE = "\nserver:\n  port: 2000\n"
ENVIRON = {"COURIER_SERVER__PORT": "3000"}
FLAGS = {"server.port": 4000}


@pytest.mark.parametrize(
    ("text", "environ", "flags", "port", "origin"),
    [
        ("", {}, {}, 8787, "default"),
        (FILE, {}, {}, 2000, "file courier.yaml:3"),
        (FILE, ENVIRON, {}, 3000, "environment COURIER_SERVER__PORT"),
        (FILE, ENVIRON, FLAGS, 4000, "flag --port"),
        (FILE, {}, FLAGS, 4000, "flag --port"),
        ("", ENVIRON, FLAGS, 4000, "flag --port"),
        ("", ENVIRON, {}, 3000, "environment COURIER_SERVER__PORT"),
        ("", {}, FLAGS, 4000, "flag --port"),
        (FILE, ENVIRON, {"server.port": None}, 3000, "environment COURIER_SERVER__PORT"),
    ],
)
def test_the_strongest_layer_that_sets_a_key_wins(
    load_text: Load, text: str, environ: dict[str, str], flags: dict[str, object], port: int, origin: str
) -> None:
    loaded = load_text(text, environ, flags)
    assert loaded.config.server.port == port
    assert loaded.origin["server.port"] == origin
    assert loaded.origin["server.host"] == "default"


def test_all_four_layers_stand_side_by_side(load_text: Load) -> None:
    loaded = load_text(
        "journal: {lingerMs: 1}\ndata: /from/file",
        {"COURIER_DATA": "/from/environment", "COURIER_LOG__LEVEL": "debug"},
        {"log.level": "error"},
    )
    assert (loaded.config.journal.linger_ms, loaded.config.data, loaded.config.log.level) == (
        1,
        "/from/environment",
        "error",
    )
    assert loaded.keys_set() == {
        "data": "environment COURIER_DATA",
        "journal.lingerMs": "file courier.yaml:1",
        "log.level": "flag --log-level",
    }


def test_a_list_in_the_environment_takes_the_place_of_the_one_in_the_file(load_text: Load) -> None:
    loaded = load_text("server: {allowedHosts: [a, b]}", {"COURIER_SERVER__ALLOWED_HOSTS": '["c"]'})
    assert loaded.config.server.allowed_hosts == ("c",)
    assert loaded.origin["server.allowedHosts[0]"] == "environment COURIER_SERVER__ALLOWED_HOSTS"


def test_a_wrong_value_in_the_file_does_not_matter_once_it_is_overridden(load_text: Load) -> None:
    assert load_text("server: {port: x}", ENVIRON).config.server.port == 3000


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("COURIER_DATA", "/var/lib/courier", "data", "/var/lib/courier"),
        ("COURIER_DATA", "5", "data", "5"),
        ("COURIER_SERVER__PORT", "0", "server.port", 0),
        ("COURIER_SERVER__MAX_BODY_BYTES", "2048", "server.max_body_bytes", 2048),
        ("COURIER_JOURNAL__LINGER_MS", "5", "journal.linger_ms", 5),
        ("COURIER_JOURNAL__SYNCHRONOUS", "normal", "journal.synchronous", "normal"),
        ("COURIER_JOURNAL__RETENTION__MAX_AGE_SECONDS", "60", "journal.retention.max_age_seconds", 60),
        ("COURIER_JOURNAL__RETENTION__MAX_AGE_SECONDS", "null", "journal.retention.max_age_seconds", None),
        ("COURIER_STREAMS__AUTO_CREATE", "false", "streams.auto_create", False),
        ("COURIER_SERVER__ALLOWED_HOSTS", '["a:1", "b"]', "server.allowed_hosts", ("a:1", "b")),
    ],
)
def test_a_variable_is_read_by_the_type_of_its_key(name: str, text: str, attribute: str, value: object) -> None:
    found: object = load(None, {name: text}, {}).config
    for part in attribute.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("COURIER_SERVER__PORT", "", 'server.port: expected an integer between 0 and 65535, found ""'),
        ("COURIER_SERVER__PORT", "9" * 5000, f'server.port: expected an integer between 0 and 65535, found "{"9" * 80}…"'),
        ("COURIER_SERVER__PORT", "NaN", 'server.port: expected an integer between 0 and 65535, found "NaN"'),
        ("COURIER_SERVER__PORT", "1.5", "server.port: expected an integer between 0 and 65535, found 1.5"),
        ("COURIER_STREAMS__AUTO_CREATE", "True", 'streams.autoCreate: expected true or false, found "True"'),
        ("COURIER_SERVER__ALLOWED_HOSTS", "a", 'server.allowedHosts: expected a list, found "a"'),
        ("COURIER_SERVER__ALLOWED_HOSTS", '["a"', "server.allowedHosts: is not valid JSON: Expecting ',' delimiter at character 5"),
        ("COURIER_SERVER__ALLOWED_HOSTS", "[NaN]", "server.allowedHosts: is not valid JSON: NaN is not JSON"),
        ("COURIER_STREAMS__PER_STREAM_CAPS", '{"a":{},"a":{}}', "streams.perStreamCaps: is not valid JSON: a key is repeated"),
        ("COURIER_TRIGGERS", "[" * 100_000, "triggers: is not valid JSON: it is nested too deep"),
        ("COURIER_DATA", "a\udcff", 'data: expected the path of a directory, found "a\\udcff"'),
        ("COURIER_LOG__LEVEL", "loud", 'log.level: expected "debug", "error", "info" or "warning", found "loud"'),
    ],
)  # fmt: skip
def test_an_unfit_variable_is_refused_by_its_name(name: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(None, {name: text}, {})
    assert refused.value.problems == [f"{name}: {problem}"]


def test_a_payload_in_a_variable_may_be_no_deeper_than_one_in_a_file() -> None:
    def triggers(depth: int) -> dict[str, str]:
        payload = "[" * depth + "1" + "]" * depth
        action = f'{{"action": "notify", "to": "s", "payload": {payload}}}'
        return {"COURIER_TRIGGERS": f'[{{"id": "a", "when": {{}}, "do": [{action}]}}]'}

    depth = JSON_DEPTH_MAX - len(("triggers", 0, "do", 0, "payload"))
    assert load(None, triggers(depth), {}).config.triggers
    with pytest.raises(ConfigError) as refused:
        load(None, triggers(depth + 1), {})
    (problem,) = refused.value.problems
    assert problem.startswith("COURIER_TRIGGERS: triggers[0].do[0].payload[0][0]")
    assert problem.endswith(": is nested more than 64 deep")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("COURIER_SERVER__PROT", "COURIER_SERVER__PROT: unknown variable; did you mean COURIER_SERVER__PORT?"),
        ("COURIER_SERVER_PORT", "COURIER_SERVER_PORT: unknown variable; did you mean COURIER_SERVER__PORT?"),
        ("COURIER_DAT", "COURIER_DAT: unknown variable; did you mean COURIER_DATA?"),
        ("COURIER_SERVER", "COURIER_SERVER: unknown variable; did you mean COURIER_SERVER__PORT?"),
        ("COURIER_QQQ", "COURIER_QQQ: unknown variable"),
        ("COURIER_", "COURIER_: unknown variable"),
        ("COURIER_A\x1b[2J", '"COURIER_A\\u001b[2J": unknown variable'),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_known_one(name: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(None, {name: "x"}, {})
    assert refused.value.problems == [problem]


def test_variables_of_the_client_the_build_and_others_are_left_alone() -> None:
    names = ["COURIER_URL", "COURIER_TOKEN", "COURIER_DEBUG_BUILD", "COURIER_WORKLOAD", "COURIER_WORKLOAD_SIZE", "PATH"]
    assert load(None, dict.fromkeys(names, "x"), {}).config == Config()


def test_the_variable_courier_config_names_the_file_when_no_path_is_given(tmp_path: Path) -> None:
    for name, port in (("one.yaml", 1), ("two.yaml", 2)):
        (tmp_path / name).write_text(f"server: {{port: {port}}}")
    environ = {"COURIER_CONFIG": str(tmp_path / "one.yaml")}
    assert load(None, environ, {}).config.server.port == 1
    assert load(tmp_path / "two.yaml", environ, {}).config.server.port == 2


def test_an_empty_courier_config_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        load(None, {"COURIER_CONFIG": ""}, {})
    assert refused.value.problems == ['COURIER_CONFIG: expected the path of a file, found ""']


def test_an_unknown_or_unfit_flag_is_refused_by_its_name(problems_of: Problems) -> None:
    assert problems_of("", {}, {"server.prot": 1, "journal.lingerMs": "x", "server": 1}) == [
        "--prot: server.prot: unknown key; did you mean server.port?",
        "--server: server: unknown key; did you mean server.port?",
        '--journal-linger-ms: journal.lingerMs: expected an integer between 0 and 1000, found "x"',
    ]


def test_a_variable_below_something_that_is_no_mapping_changes_nothing(problems_of: Problems) -> None:
    assert problems_of("server: 5", ENVIRON) == ["courier.yaml:1: server: expected a mapping, found 5"]


def test_no_two_keys_share_a_variable_or_a_flag() -> None:
    settable = settable_keys()
    assert len({environment_name(path) for path in settable}) == len(settable)
    assert len({flag_name(path) for path in settable}) == len(settable)
    assert flag_name(("server", "maxBodyBytes")) == "--max-body-bytes"
    assert flag_name(("data",)) == "--data"


def test_a_key_that_is_set_and_not_active_yet_is_named_with_its_place(
    load_text: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "NOT_YET_ACTIVE", frozenset({"triggers"}))
    loaded = load_text(
        "streams:\n  durability: memory\n  maxDepth: 5\ntriggers:\n- {id: a, when: {}, do: [{action: notify, to: s}]}",
        {"COURIER_JOURNAL__DEDUPE_ENTRIES": "200000"},
    )
    assert loaded.keys_not_yet_active() == {"triggers": "file courier.yaml:5"}
    assert load_text("streams: {maxDepth: 5}").keys_not_yet_active() == {}
