"""Bodies of `POST /v1/enqueue` that are refused, each with the status, the code and the message that it gets."""

import json
from typing import NamedTuple

from broker.limits import ENVELOPE_BYTES_MAX, JSON_DEPTH_MAX
from tests.support.events import STREAM, body, envelope, raw_body, raw_envelope


class Refusal(NamedTuple):
    """A body and its fate."""

    name: str
    body: bytes
    status: int
    code: str
    message: str


def _with(**fields: object) -> bytes:
    return json.dumps({"to": STREAM, "envelope": {**envelope(), **fields}}).encode()


def _without(field: str) -> bytes:
    kept = {key: value for key, value in envelope().items() if key != field}
    return json.dumps({"to": STREAM, "envelope": kept}).encode()


def _not_a_request(name: str, sent: bytes, reason: str) -> Refusal:
    message = f'the body is not {{"to": stream, "envelope": {{…}}}}: {reason}'
    return Refusal(name, sent, 400, "invalid_request", message)


def _not_an_envelope(name: str, sent: bytes, reason: str) -> Refusal:
    return Refusal(name, sent, 400, "invalid_envelope", reason)


def _not_utf8(payload: bytes) -> Refusal:
    sent = raw_body(raw_envelope(payload=payload))
    place = next(at for at, byte in enumerate(sent) if byte >= 0x80)
    message = f"the body is not valid UTF-8 at byte {place}; send JSON as UTF-8"
    return Refusal(f"not UTF-8 {payload!r}", sent, 400, "invalid_request", message)


def _too_deep(name: str, payload: bytes, place: bytes) -> Refusal:
    sent = raw_body(raw_envelope(payload=payload))
    at = sent.index(place) + len(place) - 1
    message = f"the JSON is nested deeper than {JSON_DEPTH_MAX} levels at byte {at}; flatten it"
    return Refusal(f"too deep {name}", sent, 400, "invalid_request", message)


MISSING = [
    _not_an_envelope(f"without {field}", _without(field), f"envelope: Object missing required field `{field}`")
    for field in ("id", "ts", "to", "type", "payload")
]

MISTYPED = [
    _not_an_envelope(f"{field} = {value!r}", _with(**{field: value}), f"envelope: {reason} - at `$.{field}{inner}`")
    for field, value, reason, inner in [
        ("id", 7, "Expected `str`, got `int`", ""),
        ("id", None, "Expected `str`, got `null`", ""),
        ("ts", 1, "Expected `datetime`, got `int`", ""),
        ("ts", "yesterday", "Invalid RFC3339 encoded datetime", ""),
        ("ts", "2025-10-18T19:55:00", "Expected `datetime` with a timezone component", ""),
        ("to", ["a"], "Expected `str`, got `array`", ""),
        ("type", {}, "Expected `str`, got `object`", ""),
        ("from", 1, "Expected `str`, got `int`", ""),
        ("schema", 1, "Expected `str`, got `int`", ""),
        ("version", "1", "Expected `int`, got `str`", ""),
        ("version", 1.5, "Expected `int`, got `float`", ""),
        ("corr", 1, "Expected `str`, got `int`", ""),
        ("refs", "T1", "Expected `array`, got `str`", ""),
        ("tags", [1], "Expected `str`, got `int`", "[0]"),
        ("headers", [], "Expected `object`, got `array`", ""),
        ("partitionKey", 1, "Expected `str`, got `int`", ""),
    ]
]

NOT_REQUESTS = [
    _not_a_request(name, sent, reason)
    for name, sent, reason in [
        ("nothing", b"", "Input data was truncated"),
        ("a brace", b"{", "Input data was truncated"),
        ("an array", b"[]", "Expected `object`, got `array`"),
        ("null", b"null", "Expected `object`, got `null`"),
        ("an empty object", b"{}", "Object missing required field `to`"),
        ("only to", b'{"to": "a"}', "Object missing required field `envelope`"),
        ("only an envelope", b'{"envelope": {}}', "Object missing required field `to`"),
        ("to = 1", b'{"to": 1, "envelope": {}}', "Expected `str`, got `int` - at `$.to`"),
        ("truncated", body()[:-1], "Input data was truncated"),
        ("a character behind", body() + b"x", f"JSON is malformed: trailing characters (byte {len(body()) + 1})"),
        ("another body behind", body() * 2, f"JSON is malformed: trailing characters (byte {len(body()) + 1})"),
        ("a byte order mark", b"\xef\xbb\xbf" + body(), "JSON is malformed: invalid character (byte 0)"),
    ]
]

NOT_JSON = [
    raw_body(raw_envelope(payload=payload))
    for payload in [
        b"NaN", b"Infinity", b"-Infinity", b"01", b"+1", b".5", b"1.", b"'a'", b"[1,]", b"{a:1}", b"tru", b"",
        b'"\n"', b'"\x00"', b'"\\x"', b'"\\u12"', b'"\\ud800"', b'"\\udfff"', b'"\\ud83dx"', b"/**/1",
    ]
]  # fmt: skip
"""Bodies whose refusal says what their decoder says."""

NOT_UTF8 = [
    _not_utf8(payload)
    for payload in (b'"\xff"', b'"\xc3("', b'"\xed\xa0\x80"', b'"\xf5\x80\x80\x80"', b'{"\xc0\xaf": 1}', b'"\xe2\x82')
]

_INNER = JSON_DEPTH_MAX - 1  # one too many: the body and the envelope are two levels
TOO_DEEP = [
    _too_deep("arrays", b"[" * _INNER + b"]" * _INNER, b"[" * _INNER),
    _too_deep("objects", b'{"a":' * _INNER + b"0", (b'{"a":' * _INNER)[:-4]),
    _too_deep("and never closed", b"[" * 100_000, b"[" * _INNER),
    _too_deep("behind strings", rb'["a\\", "\"[", "\\\"]", ' + b"[" * JSON_DEPTH_MAX, b", " + b"[" * (_INNER - 1)),
]

NAMES = [
    Refusal(f"to = {name[:12]!r}", body(to=name), 400, "invalid_request", f"to: {problem}")
    for name, problem in [
        ("", "it is empty"),
        ("a//b", "segment 2 is empty"),
        ("/a", "segment 1 is empty"),
        ("a/*", "segment 2 has a character outside A-Z a-z 0-9 . _ -"),
        ("a b", "segment 1 has a character outside A-Z a-z 0-9 . _ -"),
        ("..", 'segment 1 is "." or "..", which URLs resolve away'),
        ("a\x00", "it has a control character at position 2"),
        ("s" * 256, "it is 256 bytes long; at most 255 are allowed"),
        ("1/2/3/4/5/6/7/8/9", "it has 9 segments; at most 8 are allowed"),
    ]
]

TEXTS = [
    _not_an_envelope(f"{field} = {text[:12]!r}", _with(**{field: text}), f"envelope.{field}: {problem}")
    for field in ("id", "type")
    for text, problem in [
        ("", "it is empty"),
        ("a\x00b", "it has a control character at position 2"),
        ("a\n", "it has a control character at position 2"),
        ("\x7f", "it has a control character at position 1"),
        ("\x85", "it has a control character at position 1"),
        ("x" * 256, "it is 256 bytes long; at most 255 are allowed"),
        ("é" * 128, "it is 256 bytes long; at most 255 are allowed"),
    ]
]

DISAGREEING = _not_an_envelope(
    "two streams",
    json.dumps({"to": "a/b", "envelope": envelope(to="a/c")}).encode(),
    "envelope.to is 'a/c', but to is 'a/b'; they must agree",
)


def sized_envelope(size: int) -> bytes:
    """A valid envelope of so many bytes."""
    return raw_envelope(payload=b'"%b"' % (b"x" * (size - len(raw_envelope(payload=b'""')))))


TOO_LARGE = Refusal(
    "too large",
    raw_body(sized_envelope(ENVELOPE_BYTES_MAX + 1)),
    413,
    "too_large",
    f"the envelope has {ENVELOPE_BYTES_MAX + 1} bytes; at most {ENVELOPE_BYTES_MAX} are accepted",
)

REFUSALS = [*MISSING, *MISTYPED, *NOT_REQUESTS, *NOT_UTF8, *TOO_DEEP, *NAMES, *TEXTS, DISAGREEING, TOO_LARGE]
