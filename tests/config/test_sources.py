"""Sources in the configuration: what belongs together, what there may be at most, and secrets that stay secret."""

import json

import pytest

from broker.config.references import Unresolved, resolve
from broker.config.show import as_json, as_yaml
from broker.limits import (
    EFFECT_FILES_MAX,
    SECRET_FILE_BYTES_MAX,
    SOURCE_CURSOR_BYTES_MAX,
    SOURCE_HEADER_BYTES_MAX,
    SOURCE_HEADERS_MAX,
    SOURCE_MESSAGE_BYTES_MAX,
    SOURCE_NAME_BYTES_MAX,
    SOURCE_URL_BYTES_MAX,
    SOURCES_MAX,
)
from tests.config.conftest import Load, Problems

SECRET = "hunter2-hunter2"
REST = {"name": "a", "stream": "s", "url": "http://h/p?after={cursor}", "cursor": "/seq"}
SOCKET = {"name": "b", "stream": "s", "url": "wss://h/p?after={cursor}", "cursor": "/seq"}


def text(*rest: dict[str, object], websocket: tuple[dict[str, object], ...] = ()) -> str:
    return json.dumps({"sources": {"rest": list(rest), "websocket": list(websocket)}})


def test_a_source_needs_a_name_a_stream_and_a_url(problems_of: Problems, load_text: Load) -> None:
    assert problems_of(text({})) == [
        "courier.yaml:1: sources.rest[0].name: missing; expected the name of a source",
        "courier.yaml:1: sources.rest[0].stream: missing; expected the name of a stream",
        "courier.yaml:1: sources.rest[0].url: missing; expected an http or https URL",
    ]
    loaded = load_text(text({"name": "a", "stream": "s", "url": "http://h"}, websocket=(SOCKET,))).config.sources
    assert list(loaded.named) == [("sources", "rest", 0), ("sources", "websocket", 0)]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({**REST, "name": "a:b"}, "name: expected the name of a source, found \"a:b\": it is empty, or has a"),
        ({**REST, "url": "ftp://h"}, "url: expected an http or https URL, found text: write http:// or https://"),
        ({**REST, "url": f"http://me:{SECRET}@h"}, "url: expected an http or https URL, found text: it has a name"),
        ({**REST, "url": "http://{cursor}/"}, "url: expected an http or https URL, found text: {cursor} stands in the"),
        ({**REST, "url": "http://h/#x"}, "url: expected an http or https URL, found text: it has a fragment"),
        ({**REST, "url": "http://h:x/"}, "url: expected an http or https URL, found text: its host or port cannot be"),
        ({**REST, "id": "id"}, "id: expected a JSON pointer, found \"id\": it does not begin with /"),
        ({**REST, "id": "/a~2"}, "id: expected a JSON pointer, found \"/a~2\": it has a ~ that is neither"),
        ({**REST, "nextCursor": "/n"}, "cursor: expected either cursor or nextCursor, found both"),
        ({**REST, "cursor": None}, "cursor: missing; {cursor} is asked for, and neither cursor nor nextCursor says it"),
        ({**REST, "url": "http://h"}, "url: expected {cursor} in it, because there is a cursor to go on from"),
        ({**REST, "headers": {"Host": "x"}}, "headers.Host: expected the name of a header to send, found \"Host\":"),
        ({**REST, "headers": {"A": ""}}, "headers.A: expected the value of a header, found text: it is empty"),
        ({**REST, "headers": {"A": "***"}}, "headers.A: expected the value of a header, found text: it is the mask"),
        ({**REST, "headers": {"A": "${x}"}}, "headers.A: expected the value of a header, found text: it has a ${ that"),
        ({**REST, "headers": {"A": "${env:a-b}"}}, "headers.A: expected the value of a header, found text: a variable"),
        ({**REST, "headers": {"A": "${env:COURIER_X}"}}, "headers.A: expected the value of a header, found text: va"),
        ({**REST, "headers": f"Bearer {SECRET}"}, "headers: expected a mapping, found text"),
        ({**REST, "headers": {"A": [SECRET]}}, "headers.A: expected the value of a header, found a list"),
        ({**REST, "firstMessage": "x"}, "firstMessage: unknown key"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_key_and_without_its_secret(
    problems_of: Problems, source: dict[str, object], problem: str
) -> None:
    (found,) = problems_of(text(source))
    assert found.startswith(f"courier.yaml:1: sources.rest[0].{problem}")
    assert SECRET not in found


def test_the_place_of_a_cursor_may_be_the_first_message_of_a_websocket(load_text: Load) -> None:
    load_text(text(websocket=({**SOCKET, "url": "ws://h", "firstMessage": "{cursor}"},)))


def test_names_are_unique_among_all_kinds(problems_of: Problems) -> None:
    (problem,) = problems_of(text(REST, websocket=({**SOCKET, "name": "a"},)))
    assert problem.endswith("sources.websocket[0].name: expected a name of its own, found that of sources.rest[0].name")


def test_there_may_be_so_many_sources_and_headers_and_no_more(load_text: Load, problems_of: Problems) -> None:
    many: list[dict[str, object]] = [{**REST, "name": f"n{at}"} for at in range(SOURCES_MAX)]
    load_text(text(*many))
    (problem,) = problems_of(text(*many, websocket=(SOCKET,)))
    assert problem.endswith(f"sources: expected at most {SOURCES_MAX} sources, found {SOURCES_MAX + 1}")
    headers = {f"X-{at}": "x" for at in range(SOURCE_HEADERS_MAX)}
    load_text(text({**REST, "headers": headers}))
    (problem,) = problems_of(text({**REST, "headers": {**headers, "X": "x"}}))
    assert problem.endswith(f"expected at most {SOURCE_HEADERS_MAX} headers, found {SOURCE_HEADERS_MAX + 1}")


@pytest.mark.parametrize(
    ("key", "size", "value"),
    [
        ("name", SOURCE_NAME_BYTES_MAX, ""),
        ("url", SOURCE_URL_BYTES_MAX, "ws://h/?after={cursor}"),
        ("firstCursor", SOURCE_CURSOR_BYTES_MAX, ""),
        ("firstMessage", SOURCE_MESSAGE_BYTES_MAX, ""),
    ],
)
def test_texts_may_be_so_long_and_no_longer(
    load_text: Load, problems_of: Problems, key: str, size: int, value: str
) -> None:
    load_text(text(websocket=({**SOCKET, key: value.ljust(size, "x")},)))
    (problem,) = problems_of(text(websocket=({**SOCKET, key: value.ljust(size + 1, "x")},)))
    assert f"sources.websocket[0].{key}: " in problem
    load_text(text({**REST, "headers": {"A": "x" * SOURCE_HEADER_BYTES_MAX}}))
    problems_of(text({**REST, "headers": {"A": "x" * (SOURCE_HEADER_BYTES_MAX + 1)}}))


def test_a_header_is_shown_as_its_reference_or_not_at_all(load_text: Load) -> None:
    loaded = load_text(text({**REST, "headers": {"A": SECRET, "B": "Bearer ${env:TOKEN}"}}))
    shown = [as_yaml(loaded), as_yaml(loaded, with_origin=True), as_json(loaded), repr(loaded), str(loaded.config)]
    assert not [each for each in shown if SECRET in each]
    assert all("Bearer ${env:TOKEN}" in each for each in shown)
    assert json.loads(as_json(loaded))["sources"]["rest"][0]["headers"]["A"] == "***"


def test_references_are_resolved_or_said_to_be_missing(tmp_path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\r\n")
    assert resolve(f"a ${{env:X}} b ${{file:{secret}}} c", {"X": "x"}) == f"a x b {SECRET} c"
    assert resolve("${env:X}", {"X": "${env:Y}"}) == "${env:Y}", "what is put in is not looked through again"
    secret.write_bytes(b"x" * SECRET_FILE_BYTES_MAX)
    assert len(resolve(f"${{file:{secret}}}", {})) == SECRET_FILE_BYTES_MAX
    for content, reason in (
        (b"x" * (SECRET_FILE_BYTES_MAX + 1), f"has more than {SECRET_FILE_BYTES_MAX} bytes"),
        (b"\n", "is empty"),
        (b"\xff", "is not UTF-8"),
        (f"{SECRET}\n{SECRET}".encode(), "characters that a header cannot carry, such as a line break"),
    ):
        secret.write_bytes(content)
        with pytest.raises(Unresolved, match=reason) as refused:
            resolve(f"${{file:{secret}}}", {})
        assert SECRET not in str(refused.value)
    for reference, reason in (
        ("${env:X}", "the environment variable X is not set"),
        ("${file:/no/such}", "the file /no/such cannot be read: No such file"),
        (f"${{file:{tmp_path}}}", "cannot be read: Is a directory"),
    ):
        with pytest.raises(Unresolved, match=reason.replace("$", "\\$")):
            resolve(reference, {})
    with pytest.raises(Unresolved, match="variable X is empty"):
        resolve("${env:X}", {"X": ""})


def test_there_may_be_so_many_files_of_effects_each_once_and_no_more(load_text: Load, problems_of: Problems) -> None:
    files = [f"effects-{at}.py" for at in range(EFFECT_FILES_MAX)]
    assert len(load_text(json.dumps({"effects": files})).config.effects) == EFFECT_FILES_MAX
    (problem,) = problems_of(json.dumps({"effects": [*files, "x.py"]}))
    assert problem.endswith(f"effects: expected at most {EFFECT_FILES_MAX} files, found {EFFECT_FILES_MAX + 1}")
    (problem,) = problems_of(json.dumps({"effects": ["a.py", "a.py"]}))
    assert problem.endswith("effects[1]: expected a file of its own, found that of effects[0]")
