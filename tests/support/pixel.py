"""Requests of the plugin, as it writes them (001)."""

import json
from typing import Any

from tests.support.client import JSON, Answer, Client

KEY = "pc-idem-7a6c3048c4b6e4a2df4f59650e2dc71bdffb3e65"
TRANSPORT = {"attempt": 1, "max_attempts": 3, "retry_backoff_ms": 250, "auth_mode": "api_key"}


def key(number: int) -> str:
    """The idempotency key of the n-th event."""
    return f"pc-idem-{number:040x}"


def envelope(**fields: Any) -> dict[str, Any]:
    """A valid envelope, with some fields replaced or added; a field that is `...` is left out."""
    whole = {
        "event_name": "pixel_control.lifecycle.maniaplanet_beginmatch",
        "schema_version": "2026-02-19.1",
        "event_id": "pc-evt-lifecycle-maniaplanet_beginmatch-1739980000001",
        "event_category": "lifecycle",
        "source_callback": "ManiaPlanet.BeginMatch",
        "source_sequence": 1739980000001,
        "source_time": 1739980000,
        "idempotency_key": KEY,
        "payload": {},
        "metadata": {},
    }
    return {name: value for name, value in (whole | fields).items() if value is not ...}


def request(transport: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """The body of a request with such an envelope."""
    return json.dumps({"envelope": envelope(**fields), "transport": TRANSPORT | (transport or {})}).encode()


def numbered(number: int, name: str = "lifecycle.maniaplanet_beginmatch", **fields: Any) -> bytes:
    """The n-th event of a kind."""
    category, _, short = name.partition(".")
    return request(
        event_name=f"pixel_control.{name}",
        event_category=category,
        event_id=f"pc-evt-{category}-{short}-{number}",
        source_sequence=number,
        idempotency_key=key(number),
        **fields,
    )


async def post(client: Client, body: Any, headers: dict[str, str] | None = None) -> Answer:
    """Any body, declared as JSON unless the headers say otherwise."""
    return await client.request("POST", "plugin/events", data=body, headers=JSON | (headers or {}))


async def disposition(client: Client, body: bytes, headers: dict[str, str] | None = None) -> str:
    """What became of a request that must be accepted."""
    answer = await post(client, body, headers)
    assert answer.status == 200, answer
    assert answer.body["ack"]["status"] == "accepted", answer
    found: str = answer.body["ack"]["disposition"]
    return found


def assert_unavailable(answer: Answer) -> str:
    """Check that an answer is the fourth body of the document; its message."""
    assert answer.status == 503, answer
    assert answer.body.keys() == {"error"}
    message: str = answer.body["error"].pop("message")
    assert answer.body["error"] == {"code": "ingestion_unavailable", "retryable": True, "retry_after_seconds": 5}
    assert answer.headers["Retry-After"] == "5"
    return message
