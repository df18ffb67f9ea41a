"""CloudEvents 1.0: which events are taken, and what binary mode is made into."""

import base64
import hashlib
import json
from typing import Any

import pytest

from broker.contracts import cloudevents
from broker.errors import CourierError, InvalidEnvelope, InvalidRequest, TooLarge
from broker.limits import ARRAY_EVENTS_MAX, ENVELOPE_BYTES_MAX, JSON_DEPTH_MAX, SOURCE_SYSTEM_BYTES_MAX

NOW = 1_771_524_842_000_000
SOURCE = "https://example.com/sensors"
HEADERS = {"specversion": "1.0", "id": "1", "source": SOURCE, "type": "door.opened", "subject": "sensors/door"}
WRONG: dict[str, list[Any]] = {
    "specversion": [1.0, 1, "0.3", "1", "", None, {}, []],
    "id": [5, "", None, {}, [], "a\n", "x" * 256, True],
    "source": [5, "", None, {}, [], "a\x00", "x" * 510, True],
    "type": [5, "", None, {}, [], "x" * 256, True],
    "subject": [5, "", {}, [], True],
    "time": [5, "", "yesterday", "2026-02-19", "2026-02-19T18:14:02", {}, True, "0001-01-01T00:00:00+10:00"],
    "datacontenttype": [5, "", {}, True],
    "dataschema": [5, "", {}, True],
    "partitionkey": [5, "", {}, "x" * 256],
    "extension": [1.5, {}, [], {"a": 1}],
    "data_base64": [5, "A", "!!!!", "AA=A", {}, True],
}


def event(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in (HEADERS | fields).items() if value is not ...}


def raw(**fields: Any) -> bytes:
    return json.dumps(event(**fields)).encode()


def parsed(body: bytes, default: str | None = None) -> Any:
    return cloudevents.parse(body, default, NOW)


def refusal(body: bytes) -> CourierError:
    with pytest.raises(CourierError) as refused:
        parsed(body)
    return refused.value


def binary(data: bytes = b"", content_type: str | None = None, **headers: str) -> bytes:
    named = {f"ce-{name}": value for name, value in (HEADERS | headers).items()}
    return cloudevents.structured(named.items(), content_type, data)


def test_a_structured_event_keeps_its_own_bytes() -> None:
    body = json.dumps(event(time="2026-02-19T20:14:02+02:00", data={"n": 10**30}), indent=2).encode()
    found = parsed(body)
    assert (found.contract, found.stream, found.type) == ("cloudevents", "sensors/door", "door.opened")
    assert (found.source_system, found.source_event_id) == (f"ce:{SOURCE}", "1")
    assert (found.envelope, found.payload_sha256) == (body, hashlib.sha256(body).digest())
    assert (found.source_emitted_at, found.received_at) == ("2026-02-19T18:14:02+00:00", NOW)


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
def test_a_missing_attribute_is_named(name: str) -> None:
    assert refusal(raw(**{name: ...})).message.startswith(f"{name}: ")


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, each in WRONG.items() for value in each])
def test_a_wrong_attribute_is_named(name: str, value: Any) -> None:
    error = refusal(raw(**{name: value}))
    assert type(error) is InvalidEnvelope
    assert error.message.startswith(f"{name}: ")


def test_a_null_attribute_is_as_if_it_were_not_there() -> None:
    assert parsed(raw(subject=None, time=None, dataschema=None, data_base64=None), "others").stream == "others"


@pytest.mark.parametrize("name", ["my_extension", "Extension", "ä", "", "a-b", "a b"])
def test_an_extension_is_named_by_the_rules(name: str) -> None:
    assert "not the name of an attribute" in refusal(raw(**{name: "x"})).message
    parsed(raw(extension1="x", ext2=5, ext3=True))


def test_a_partition_key_is_the_key_of_the_extension() -> None:
    assert parsed(raw(partitionkey="k")).partition_key == "k"
    assert parsed(raw()).partition_key is None


@pytest.mark.parametrize("subject", [..., "not a stream!", "a//b", "../x"])
def test_a_subject_that_names_no_stream_leaves_it_to_the_configuration(subject: Any) -> None:
    assert parsed(raw(subject=subject), "others").stream == "others"
    assert refusal(raw(subject=subject)).message.startswith("subject: it names no stream")


def test_a_source_cannot_take_the_identities_of_another_contract() -> None:
    for source in ("local", "stream:agents/a", "bus:x", "redrive:7"):
        assert parsed(raw(source=source)).source_system == f"ce:{source}"
    longest = SOURCE_SYSTEM_BYTES_MAX - len("ce:")
    assert len(parsed(raw(source="x" * longest)).source_system) == SOURCE_SYSTEM_BYTES_MAX


@pytest.mark.parametrize("name", ["id", "source", "data", "subject", "extension"])
@pytest.mark.parametrize("escaped", [False, True])
def test_an_attribute_that_is_there_twice_is_refused_however_it_is_spelled(name: str, escaped: bool) -> None:
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in name) if escaped else name
    once = raw(data={}, extension="x")
    assert "is there twice" in refusal(once[:-1] + f', "{spelled}": "b"}}'.encode()).message


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", InvalidEnvelope),
        (b"5", InvalidEnvelope),
        (b"[]", InvalidEnvelope),
        (raw()[:-1], InvalidEnvelope),
        (raw(data=5).replace(b"5}", b"NaN}"), InvalidEnvelope),
        (raw().replace(b"door", b"d\xff\xff"), InvalidRequest),
        (raw(data="D").replace(b'"D"', b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX), InvalidRequest),
        (raw(extension=10**5).replace(b"100000", b"1E999"), InvalidEnvelope),
        (b"\x1f\x8b\x08", InvalidRequest),
    ],
)
def test_what_is_no_event_is_refused(body: bytes, kind: type[CourierError]) -> None:
    assert type(refusal(body)) is kind


def test_an_event_may_be_as_large_as_the_bound_and_no_larger() -> None:
    padding = ENVELOPE_BYTES_MAX - len(raw(data=""))
    assert len(parsed(raw(data="x" * padding)).envelope) == ENVELOPE_BYTES_MAX
    assert type(refusal(raw(data="x" * (padding + 1)))) is TooLarge


def test_a_batch_holds_as_many_as_the_bound_and_may_be_empty() -> None:
    assert cloudevents.split_batch(b" [ ] ") == []
    assert len(cloudevents.split_batch(b"[" + b",".join([b"{}"] * ARRAY_EVENTS_MAX) + b"]")) == ARRAY_EVENTS_MAX
    with pytest.raises(TooLarge):
        cloudevents.split_batch(b"[" + b",".join([b"{}"] * (ARRAY_EVENTS_MAX + 1)) + b"]")
    for body in (b"{}", b"", b"[", b"5"):
        with pytest.raises(InvalidRequest):
            cloudevents.split_batch(body)


@pytest.mark.parametrize("kind", ["application/json", "text/json", "application/vnd.x+json; charset=UTF-8"])
@pytest.mark.parametrize(
    "data", [b'{"n": 123456789012345678901234567890, "a": 1, "a": 2}', b" [1 ,2]\n", b"null", b"1E400"]
)
def test_json_data_is_embedded_as_it_came(kind: str, data: bytes) -> None:
    made = binary(data, kind)
    assert made.endswith(b',"data":' + data + b"}")
    assert parsed(made).envelope == made


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("text/plain", b"open"),
        ("application/octet-stream", bytes(range(256))),
        (None, b"{}"),
        ("application/json; charset=utf-16", '{"a": 1}'.encode("utf-16")),
        ("nonsense", b"{}"),
    ],
)
def test_other_data_is_in_base64(kind: str | None, data: bytes) -> None:
    made = json.loads(binary(data, kind))
    assert base64.b64decode(made["data_base64"]) == data
    assert made.get("datacontenttype") == kind
    parsed(binary(data, kind))


def test_an_event_without_data_has_none() -> None:
    assert json.loads(binary(b"", "application/json")).keys() == {*HEADERS, "datacontenttype"}


def test_the_same_event_is_made_into_the_same_bytes_whatever_the_order_of_its_headers() -> None:
    named = [(f"Ce-{name}", value) for name, value in HEADERS.items()]
    assert cloudevents.structured(named, None, b"x") == cloudevents.structured(named[::-1], None, b"x")


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        (' "quoted \\"text\\" %25" ', 'quoted "text" %'),
        ("100%25", "100%"),
        ("plain+text", "plain+text"),
    ],
)
def test_a_header_is_decoded_as_the_binding_says(sent: str, meant: str) -> None:
    assert json.loads(binary(extension=sent))["extension"] == meant


@pytest.mark.parametrize("value", ["100%", "%E2%82", "%zz", "\udcff"])
def test_a_header_that_cannot_be_decoded_is_refused(value: str) -> None:
    with pytest.raises(InvalidEnvelope, match="ce-extension"):
        binary(extension=value)


@pytest.mark.parametrize("name", ["datacontenttype", "data", "data_base64"])
def test_a_header_in_place_of_the_body_or_its_type_is_refused(name: str) -> None:
    with pytest.raises(InvalidEnvelope, match="has no meaning"):
        cloudevents.structured([(f"ce-{name}", "x")], None, b"")


def test_a_header_that_is_there_twice_is_refused() -> None:
    named = [(f"ce-{name}", value) for name, value in HEADERS.items()]
    with pytest.raises(InvalidEnvelope, match="ce-id is there twice"):
        cloudevents.structured([*named, ("CE-ID", "2")], None, b"")


@pytest.mark.parametrize("data", [b"open", b"{", b"{}{}", b"NaN", b"\xff", b"[" * 65 + b"]" * 65])
def test_data_that_is_declared_as_json_and_is_not_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        binary(data, "application/json")
