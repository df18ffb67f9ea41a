"""A manifest with mistakes: every one is told at once, with its line and its exact key."""

from pathlib import Path

import pytest

from broker.extensions.checking import check
from broker.extensions.problems import LoadFailed
from broker.extensions.reading import read_manifest
from broker.limits import (
    AGENT_CALLS_PER_MINUTE_MAX,
    AGENT_HOPS_MAX,
    AGENT_INSTRUCTIONS_BYTES_MAX,
    AGENT_SECONDS_MAX,
    EXTENSION_FILES_MAX,
    EXTENSION_ID_BYTES_MAX,
    OUTGOING_RETRIES_MAX,
)
from tests.extensions.conftest import LISTENS, write

AGENT = "agent: {model: m, base_url: 'http://127.0.0.1:1/v1'}\n"

WRONG = {
    "events: {subscribe: []}": "1: events.subscribe: unknown key; did you mean subscribes?",
    "event: {}": "1: event: unknown key; did you mean events?",
    "colour: red": "1: colour: unknown key; expected id, name, version, description, enabled, entrypoint, config, "
    "agent, channel or events",
    "events:\n  subscribes:\n    - topic: a\n      handler: notify": "4: events.subscribes[0].handler: expected "
    '"custom", "invoke_agent" or "notify_user", found "notify"',
    "events:\n  subscribes:\n    - {handler: notify_user}": "3: events.subscribes[0].topic: missing; expected a topic "
    "or a pattern of topics",
    LISTENS % ("task.**.x", "notify_user"): "4: events.subscribes[0].topic: expected a topic or a pattern of topics, "
    'found "task.**.x": word 2 is **, which may only come last',
    LISTENS
    % ("task", "invoke_agent"): "4: events.subscribes[0].handler: invoke_agent asks the agent of this manifest, "
    "and it has none; add agent:",
    LISTENS
    % ("task", "custom"): "4: events.subscribes[0].handler: custom needs code that subscribes; there is neither "
    "entrypoint nor extension.py",
    "id: 'a:b'": '1: id: expected the id of an extension, found "a:b": write letters, digits, _ - and . only',
    "entrypoint: nothing:It": "1: entrypoint: there is no file nothing.py in",
    "entrypoint: ../evil:It": '1: entrypoint: expected an entrypoint, found "../evil:It": write module or module:Class',
    "enabled: 'yes'": '1: enabled: expected true or false, found "yes"',
    "config: []": "1: config: expected a mapping, found an empty list",
    "agent: {integration_mode: handoff}": '1: agent.integration_mode: expected "tool", found "handoff"',
    "agent: {model: m, api_key_env: MISSING}": "1: agent.api_key_env: the environment has no MISSING; set it before",
    "agent: {model: m, api_key_env: sk-1}": "1: agent.api_key_env: expected the name of an environment variable, found "
    '"sk-1": write the name of a variable, and never the key itself',
    "agent: {base_url: ftp://a}": '1: agent.base_url: expected a URL, found "ftp://a": write http://host or https',
    "agent: {base_url: 'http://u:p@a/'}": "1: agent.base_url: expected a URL, found",
    "channel: {kind: webhook}": "1: channel.url: missing; a webhook needs the URL to post to",
    "channel: {default: true}": "1: channel: expected kind: webhook, or code whose object has send",
    "channel: {timeout: 5}": "1: channel.timeout: only a channel with kind: webhook has it",
    "- a": "1: expected a mapping at the top, found a list",
    "a: [": "1:5: is not valid YAML",
    "id: a\nid: b": "2: id: repeated key; first given at",
}


def problems_of(root: Path, manifest: str) -> list[str]:
    with pytest.raises(LoadFailed) as caught:
        read_manifest(write(root, "ext", manifest), {})
    return caught.value.problems


@pytest.mark.parametrize("manifest", WRONG)
def test_a_mistake_is_told_with_its_line_and_its_key(root: Path, manifest: str) -> None:
    found = problems_of(root, manifest)
    assert [each for each in found if each.startswith(f"{root}/ext/manifest.yaml:{WRONG[manifest]}")], found


def test_every_mistake_is_told_at_once(root: Path) -> None:
    found = problems_of(root, "id: 'a:b'\nenabled: 5\ncolour: red\nagent: {retries: -1}\n")
    assert [each.split(": ")[1] for each in found] == ["id", "enabled", "colour", "agent.retries"]


def test_a_file_that_is_missing_is_told(root: Path) -> None:
    (root / "ext").mkdir()
    with pytest.raises(LoadFailed, match=r"ext/manifest\.yaml: cannot be read: No such file"):
        read_manifest(root / "ext", {})


def test_the_name_of_the_directory_is_the_id_unless_it_cannot_be_one(root: Path) -> None:
    assert read_manifest(write(root, "reminder-2", "{}"), {}).id == "reminder-2"
    assert read_manifest(write(root, "two words", "id: two\n"), {}).id == "two"
    with pytest.raises(LoadFailed, match=r"id: missing, and the name of the directory cannot be one"):
        read_manifest(write(root, "two words", "{}"), {})


BOUNDS = [
    ("agent", "timeout", 0.01, AGENT_SECONDS_MAX, 0.001),
    ("agent", "retries", 0, OUTGOING_RETRIES_MAX, 1),
    ("agent", "calls_per_minute", 1, AGENT_CALLS_PER_MINUTE_MAX, 1),
    ("agent", "hops_max", 1, AGENT_HOPS_MAX, 1),
    ("channel", "retries", 0, OUTGOING_RETRIES_MAX, 1),
]


@pytest.mark.parametrize(("part", "key", "least", "most", "step"), BOUNDS)
def test_a_number_at_its_bounds_passes_and_one_beyond_does_not(
    root: Path, part: str, key: str, least: float, most: float, step: float
) -> None:
    rest = "model: m, base_url: 'http://a/v1'" if part == "agent" else "kind: webhook, url: 'http://a/'"
    for fits in (least, most):
        read_manifest(write(root, "ext", f"{part}: {{{rest}, {key}: {fits}}}"), {})
    for beyond in (least - step, most + step):
        (problem,) = problems_of(root, f"{part}: {{{rest}, {key}: {beyond}}}")
        assert f"manifest.yaml:1: {part}.{key}: expected " in problem


def test_an_id_and_instructions_as_long_as_allowed_pass_and_longer_ones_do_not(root: Path) -> None:
    read_manifest(write(root, "ext", f"id: {'a' * EXTENSION_ID_BYTES_MAX}"), {})
    assert "id: expected the id" in problems_of(root, f"id: {'a' * (EXTENSION_ID_BYTES_MAX + 1)}")[0]
    read_manifest(write(root, "ext", f"agent: {{instructions: {'a' * AGENT_INSTRUCTIONS_BYTES_MAX}}}"), {})
    found = problems_of(root, f"agent: {{instructions: {'a' * (AGENT_INSTRUCTIONS_BYTES_MAX + 1)}}}")
    assert "agent.instructions: expected text" in found[0]


# Checking a directory without running anything.


def test_a_check_runs_nothing_and_finds_what_a_run_would(root: Path, tmp_path: Path) -> None:
    touch = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    write(root, "a", "entrypoint: extension:It\n", f"{touch}\n\nclass It:\n    pass\n")
    write(root, "b", "entrypoint: extension:Gone\n", "class It:\n    pass\n")
    write(root, "c", "entrypoint: extension:It\n", "class It\n")
    write(root, "d", "id: a\n", "x = 1\n", other="def f(:\n")
    found = {each.directory.name: each.problems for each in check(root, {})}
    assert found == {
        "a": [],
        "b": [f"{root}/b/extension.py: there is no Gone in it, which entrypoint asks for"],
        "c": [f"{root}/c/extension.py:1: SyntaxError: expected ':'"],
        "d": [
            f"{root}/d/other.py:1: SyntaxError: invalid syntax",
            f"{root}/d/manifest.yaml: id: expected an id of its own, found a, that of {root}/a",
        ],
    }
    assert not (tmp_path / "ran").exists()


def test_a_class_that_is_imported_into_the_module_counts(root: Path) -> None:
    write(root, "a", "entrypoint: extension:It\n", "from .inner import It\n", inner="class It:\n    pass\n")
    assert [each.problems for each in check(root, {})] == [[]]


def test_a_directory_of_too_many_files_is_no_extension(root: Path) -> None:
    directory = write(root, "ext", "{}")
    for number in range(EXTENSION_FILES_MAX - 1):
        (directory / f"m{number}.py").touch()
    assert [each.problems for each in check(root, {})] == [[]]
    (directory / "one_more.py").touch()
    (found,) = check(root, {})
    assert found.problems == [f"{directory}: has more than {EXTENSION_FILES_MAX} files; is it an extension?"]


def test_an_agent_without_a_model_or_an_endpoint_is_told_at_the_load(root: Path) -> None:
    """It depends on the code, which may answer itself; so it is found when that is loaded."""
    assert read_manifest(write(root, "ext", AGENT), {}).agent is not None
