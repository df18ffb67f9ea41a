"""Envelopes and request bodies, as a producer writes them."""

import json
from typing import Any

STREAM = "agents/Jen/inbox"

AWKWARD_PAYLOADS = [
    b"123456789012345678901234567890",
    b"-18446744073709551617",
    b'{"a": 1, "a": 2, "b": {"a": 3, "a": 4}}',
    b"1.0000000000000000000000001",
    b"1E400",
    b"-0.0",
    b' \t\r\n{ "spaced" :\n[ 1 ,2 ]\t}',
    '"žluťoučký kůň 🐎 ﷽ é"'.encode(),
    b'"\\u00e9\\ud83d\\ude00\\/\\b"',
    b'"\xe2\x80\xa8\xe2\x80\xa9\x7f"',
    b"null",
    b"[]",
]
"""What a broker that parsed and wrote again would alter."""


def envelope(event_id: str = "e-1", to: str = STREAM, **fields: Any) -> dict[str, Any]:
    """A valid envelope (003 §4.1), with some fields replaced or added; a field that is None is left out."""
    whole = {
        "id": event_id,
        "ts": "2025-10-18T19:55:00Z",
        "to": to,
        "type": "sprint.assign",
        "payload": {"title": "Plan xenoctl CLI"},
    }
    return {key: value for key, value in (whole | fields).items() if value is not None}


def body(event_id: str = "e-1", to: str = STREAM, **fields: Any) -> bytes:
    """The body of `POST /v1/enqueue` for such an envelope."""
    return json.dumps({"to": to, "envelope": envelope(event_id, to, **fields)}).encode()


def raw_body(raw_envelope: bytes, to: str = STREAM) -> bytes:
    """A body that holds exactly these bytes as its envelope."""
    return b'{"to": %b, "envelope": %b}' % (json.dumps(to).encode(), raw_envelope)


def raw_envelope(event_id: str = "e-1", payload: bytes = b"{}", to: str = STREAM) -> bytes:
    """An envelope with exactly these bytes as its payload."""
    head = json.dumps({"id": event_id, "ts": "2025-10-18T19:55:00Z", "to": to, "type": "t"}).encode()
    return head[:-1] + b', "payload": ' + payload + b"}"
