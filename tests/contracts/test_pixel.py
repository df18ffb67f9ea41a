"""The Pixel contract: which requests are events, and what is said of the others."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from broker.contracts import pixel
from broker.contracts.pixel import Told, facts, header_note
from broker.contracts.pixel_schemas import PixelSchemas, load_schemas
from broker.errors import ConfigError, CourierError, InvalidEnvelope, TooLarge
from broker.limits import ENVELOPE_BYTES_MAX, HEADER_NOTE_BYTES_MAX, JSON_DEPTH_MAX, SCHEMA_FILES_MAX, SEQ_MAX
from tests.support.pixel import KEY, TRANSPORT, envelope, request

NOW = 1_771_524_842_000_000
SCHEMAS = load_schemas()
NOTHING_TOLD = Told()
WRONG: dict[str, list[Any]] = {
    "event_name": [5, None, "", "lifecycle.x", "pixel_control.other.x", "pixel_control.lifecycle.X", "a\n",
                   "pixel_control.lifecycle.x\n", "pixel_control.lifecycle._x", "pixel_control.mode.x"],
    "schema_version": [5, None, ["2026-02-19.1"], {}],
    "event_id": [5, None, "", "evt-1", "pc-evt-lifecycle-x-0", "pc-evt-lifecycle-x-", "pc-evt-mode-x-1",
                 "pc-evt-lifecycle-x-1 "],
    "event_category": [5, None, "", "other", "Lifecycle"],
    "source_callback": [5, None, "", []],
    "source_sequence": ["1", None, 0, -1, 1.5, True, 1.0, 2**63, 10**40],
    "source_time": ["1", None, -1, 1.5, False, 2**63],
    "idempotency_key": [5, None, "", "pc-idem-", KEY[:-1], KEY + "0", KEY.replace("7", "g"), KEY.upper()],
    "payload": [5, None, "{}", [1], [[]], True],
    "metadata": [5, None, "{}", [1], [[]], True],
}  # fmt: skip
WRONG_TRANSPORT: dict[str, list[Any]] = {
    "attempt": ["1", None, 0, -1, 1.5, 1.0, True, 2**63, 10**40],
    "max_attempts": ["1", None, 0, 1.5, 10**40],
    "retry_backoff_ms": ["1", None, -1, 1.5, 10**40],
    "auth_mode": [5, None, "", "basic"],
}


def parsed(
    body: bytes, schemas: PixelSchemas = SCHEMAS, payloads: Any = "warn", told: Told = NOTHING_TOLD
) -> pixel.Parsed:
    return pixel.parse(body, schemas, payloads, "server-a", NOW, told)


def refusal(body: bytes, **options: Any) -> tuple[str, str | None]:
    """The word of the contract for what is wrong, and where it is."""
    with pytest.raises(CourierError) as refused:
        parsed(body, **options)
    assert not refused.value.retryable
    return pixel.word_of(refused.value), refused.value.detail.get("pointer")


def test_a_request_becomes_an_event_with_the_envelopes_own_bytes() -> None:
    own = json.dumps(envelope(), indent=3).encode()
    event, violation = parsed(b'{ "transport": %b ,"envelope":\n%b}' % (json.dumps(TRANSPORT).encode(), own))
    assert violation is None
    assert (event.contract, event.stream) == ("pixel", "pixel/lifecycle")
    assert (event.type, event.source_system) == ("pixel_control.lifecycle.maniaplanet_beginmatch", "server-a")
    assert (event.source_event_id, event.event_id) == (KEY, envelope()["event_id"])
    assert (event.envelope, event.payload_sha256) == (own, hashlib.sha256(own).digest())
    assert (event.source_sequence, event.source_emitted_at) == (1739980000001, "2025-02-19T15:46:40+00:00")
    assert event.dedupe_key == hashlib.sha256(f"server-a:{KEY}".encode()).hexdigest()
    assert (event.schema_version, event.transport_attempt, event.notes) == ("2026-02-19.1", 1, None)


@pytest.mark.parametrize("field", envelope())
def test_a_missing_field_of_the_envelope_is_an_invalid_envelope(field: str) -> None:
    assert refusal(request(**{field: ...})) == ("envelope_invalid", "/envelope")


@pytest.mark.parametrize(("field", "value"), [(name, value) for name, each in WRONG.items() for value in each])
def test_a_wrong_field_of_the_envelope_is_pointed_at(field: str, value: Any) -> None:
    word, pointer = refusal(request(**{field: value}))
    assert word == "envelope_invalid"
    agreeing = {"event_category": {"/envelope/event_id", "/envelope/event_name"}}
    assert pointer in {f"/envelope/{field}", *agreeing.get(field, ())}


@pytest.mark.parametrize("field", TRANSPORT)
def test_a_missing_field_of_the_transport_is_an_invalid_transport(field: str) -> None:
    kept = {name: value for name, value in TRANSPORT.items() if name != field}
    body = json.dumps({"envelope": envelope(), "transport": kept}).encode()
    assert refusal(body) == ("transport_invalid", "/transport")


@pytest.mark.parametrize(
    ("field", "value"), [(name, value) for name, each in WRONG_TRANSPORT.items() for value in each]
)
def test_a_wrong_field_of_the_transport_is_pointed_at(field: str, value: Any) -> None:
    assert refusal(request({field: value})) == ("transport_invalid", f"/transport/{field}")


def test_nothing_else_may_be_in_envelope_transport_or_request() -> None:
    assert refusal(request(colour="blue")) == ("envelope_invalid", "/envelope")
    assert refusal(request({"colour": "blue"})) == ("transport_invalid", "/transport")
    assert refusal(request()[:-1] + b', "colour": 1}') == ("request_invalid", "")


@pytest.mark.parametrize("transport", [b"5", b"[]", b"null", b'"x"', b"true"])
def test_a_transport_that_is_no_object_is_an_invalid_transport(transport: bytes) -> None:
    body = b'{"envelope": %b, "transport": %b}' % (json.dumps(envelope()).encode(), transport)
    assert refusal(body) == ("transport_invalid", "/transport")


@pytest.mark.parametrize("inner", [b"5", b"[]", b"null", b'"x"', b"true"])
def test_an_envelope_that_is_no_object_is_an_invalid_envelope(inner: bytes) -> None:
    body = b'{"envelope": %b, "transport": %b}' % (inner, json.dumps(TRANSPORT).encode())
    assert refusal(body) == ("envelope_invalid", "/envelope")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"5",
        b"[]",
        b"[%b]" % request(),
        b"{}",
        request()[:-1],
        request() + b"}",
        request().replace(b"1739980000,", b"NaN,"),
        request().replace(b"1739980000,", b"Infinity,"),
        request().replace(b'"ManiaPlanet', b'"\xff'),
        request(payload={"a": "B"}).replace(b'"B"', b'"\xed\xa0\x80"'),
        request(payload="P").replace(b'"P"', b'{"a":' * JSON_DEPTH_MAX + b"1" + b"}" * JSON_DEPTH_MAX),
        request(payload={"a": "B"}).replace(b'"B"', b'"\\ud800"'),
        b"\x1f\x8b\x08\x00",
        b"envelope=1&transport=2",
        b"\xef\xbb\xbf" + request(),
    ],
)
def test_what_is_no_request_is_an_invalid_request(body: bytes) -> None:
    assert refusal(body)[0] == "request_invalid"


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("envelope", "request_invalid"),
        ("transport", "request_invalid"),
        ("attempt", "transport_invalid"),
        ("idempotency_key", "envelope_invalid"),
        ("payload", "envelope_invalid"),
        ("event_id", "envelope_invalid"),
    ],
)
def test_a_key_that_is_there_twice_is_refused_however_it_is_spelled(name: str, word: str, escaped: bool) -> None:
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in name) if escaped else name
    whole = {"envelope": envelope(), "transport": TRANSPORT}
    inside = {"request_invalid": whole, "transport_invalid": TRANSPORT, "envelope_invalid": envelope()}[word]
    once = json.dumps(inside)
    twice = f'{once[:-1]}, "{spelled}": {json.dumps(inside[name])}}}'
    assert refusal(json.dumps(whole).replace(once, twice).encode())[0] == word


@pytest.mark.parametrize("payload", [b'{"a":1,"a":2}', b'{"n":123456789012345678901234567890}', b'{"n":1E400}', b"{ }",
                                     b"[]", b"[ \n]", b'{"payload":{"payload":{}}}'])  # fmt: skip
def test_inside_a_payload_nothing_is_said_and_nothing_is_changed(payload: bytes) -> None:
    event, violation = parsed(request(payload="P", metadata=[]).replace(b'"P"', payload))
    assert payload in event.envelope
    assert violation is None


def test_a_source_time_behind_the_calendar_is_no_reason_to_lose_an_event() -> None:
    assert parsed(request(source_time=1739980000000)).event.source_emitted_at is None
    assert parsed(request(source_time=0)).event.source_emitted_at == "1970-01-01T00:00:00+00:00"
    assert parsed(request({"attempt": SEQ_MAX}, source_sequence=SEQ_MAX)).event.source_sequence == SEQ_MAX


def test_an_envelope_may_be_as_large_as_the_bound_and_no_larger() -> None:
    padding = ENVELOPE_BYTES_MAX - len(json.dumps(envelope(payload={"p": ""})))
    assert len(parsed(request(payload={"p": "x" * padding})).event.envelope) == ENVELOPE_BYTES_MAX
    with pytest.raises(TooLarge):
        parsed(request(payload={"p": "x" * (padding + 1)}))


def test_a_long_value_is_not_repeated_in_full_in_the_message() -> None:
    with pytest.raises(InvalidEnvelope) as refused:
        parsed(request(event_id="x" * 100_000))
    assert len(refused.value.message) < 400


def test_what_the_headers_say_is_kept_with_the_event() -> None:
    told = Told(header_note("ma ster\udcff\x07"), header_note("1.0.0"))
    assert json.loads(parsed(request(), told=told).event.notes or "") == {
        "server_login": "ma ster\ufffd\ufffd",
        "plugin_version": "1.0.0",
    }
    assert header_note("") is None
    assert header_note(None) is None
    assert header_note("é" * 200) == "é" * (HEADER_NOTE_BYTES_MAX // 2)


def schema_file(directory: Path, name: str, schema: Any) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))


BEGIN = "pixel_control.lifecycle.maniaplanet_beginmatch"


@pytest.fixture
def operators(tmp_path: Path) -> Path:
    """Another version of the envelope, and a schema for one payload of each version."""
    built_in = Path(pixel.__file__).parent / "schemas/envelope-2026-02-19.1.schema.json"
    other = json.loads(built_in.read_text())
    other["properties"]["schema_version"] = {"const": "2026-03-01.1"}
    schema_file(tmp_path, "envelope-2026-03-01.1.schema.json", other)
    payload = {"type": "object", "properties": {"map": {"type": "string"}}, "required": ["map"]}
    for version in ("2026-02-19.1", "2026-03-01.1"):
        schema_file(tmp_path, f"payloads-{version}/{BEGIN}.schema.json", payload)
    return tmp_path


@pytest.mark.parametrize("version", ["2026-02-19.1", "2026-03-01.1"])
def test_an_operator_adds_versions_and_schemas_of_payloads(version: str, operators: Path) -> None:
    schemas = load_schemas(operators)
    fine = request(schema_version=version, payload={"map": "Stadium"})
    assert parsed(fine, schemas).violation is None
    assert parsed(fine, schemas).event.schema_version == version
    for drifted, pointer in (
        ({"map": 5}, "/envelope/payload/map"),
        ({}, "/envelope/payload"),
        ([], "/envelope/payload"),
    ):
        body = request(schema_version=version, payload=drifted)
        event, violation = parsed(body, schemas, "warn")
        assert violation is not None
        assert violation.pointer == pointer
        assert json.loads(event.notes or "")["payload_violation"].startswith(f"{pointer}: ")
        assert parsed(body, schemas, "off") == (event._replace(notes=None), None)
        assert refusal(body, schemas=schemas, payloads="enforce") == ("envelope_invalid", pointer)


def test_a_payload_that_cannot_be_read_breaks_its_schema_and_is_kept(operators: Path) -> None:
    body = request(payload="P").replace(b'"P"', b'{"map": "a", "n": 1E400}')
    _, violation = parsed(body, load_schemas(operators))
    assert violation is not None
    assert violation.message.startswith("it cannot be read")


def test_an_operators_envelope_may_be_lax_and_what_the_ledger_needs_is_asked_for_all_the_same(tmp_path: Path) -> None:
    schema_file(tmp_path, "envelope-lax.schema.json", {})
    schemas = load_schemas(tmp_path)
    assert parsed(request(schema_version="lax", colour="blue"), schemas).event.schema_version == "lax"
    for field in ("event_name", "event_id", "idempotency_key", "event_category", "source_sequence", "source_time"):
        for wrong in (..., 5.5, "", "x" * 300, "a\n"):
            found = refusal(request(schema_version="lax", **{field: wrong}), schemas=schemas)
            assert found == ("envelope_invalid", f"/envelope/{field}")
    assert refusal(request(schema_version="lax", event_category="a b"), schemas=schemas)[0] == "envelope_invalid"


@pytest.mark.parametrize(
    ("name", "schema", "reason"),
    [
        ("envelope-2.schema.json", "{", "truncated"),
        ("envelope-2.schema.json", {"type": "nope"}, "nope"),
        ("envelope-2.schema.json", {"$ref": "http://127.0.0.1:1/other.json"}, "not fetched"),
        ("envelope-2.schema.json", {"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "not fetched"),
        ("envelope-2.schema.json", {"pattern": "(a"}, "regex"),
        ("envelope-2026-02-19.1.schema.json", {}, "is built in"),
        (f"payloads-2/{BEGIN}.schema.json", {}, "no envelope-2.schema.json"),
        ("other.json", {}, "there is no envelope-VERSION.schema.json"),
        ("envelope-2.schema.json", " " * (1024 * 1024 + 1), "more than 1048576 bytes"),
    ],
)
def test_a_bad_directory_of_schemas_is_told_at_the_start(name: str, schema: Any, reason: str, tmp_path: Path) -> None:
    schema_file(tmp_path, name, schema)
    with pytest.raises(ConfigError, match=reason) as refused:
        load_schemas(tmp_path)
    assert all(problem.startswith("pixel.schemas: ") for problem in refused.value.problems)


def test_a_directory_that_is_not_there_or_too_full_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no"):
        load_schemas(tmp_path / "nowhere")
    for number in range(SCHEMA_FILES_MAX + 1):
        schema_file(tmp_path, f"envelope-{number}.schema.json", {})
    with pytest.raises(ConfigError, match="at most 1000"):
        load_schemas(tmp_path)


def test_of_a_refused_request_what_can_be_read_is_read() -> None:
    known = facts(request({"attempt": 2}, source_time=-1))
    assert known == (envelope()["event_id"], BEGIN, "2026-02-19.1", KEY, 2)
    assert facts(request({"attempt": 10**30}, event_id=5, event_name="a\n")) == (None, None, "2026-02-19.1", KEY, None)
    for body in (b"", b"{", b"[]", b'{"envelope": 5}', b'{"envelope": {}, "envelope": {"event_id": "a"}}', b"\xff"):
        assert facts(body) == (None, None, None, None, None)
