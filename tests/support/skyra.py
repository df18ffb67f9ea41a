"""Envelopes of devices, as a device writes them (000 §4)."""

import json
from typing import Any

DEVICE = "pi-livingroom-01"


def event(event_id: str = "evt_1", **fields: Any) -> dict[str, Any]:
    """A valid envelope, with some fields replaced or added; a field that is `...` is left out."""
    whole = {
        "schema_version": 1,
        "event_id": event_id,
        "type": "proposal.task",
        "ts": "2026-02-16T23:10:21Z",
        "session_id": "sess_1",
        "device_id": DEVICE,
        "payload": {"intent": "server.log_summary", "confidence": 0.84},
    }
    return {key: value for key, value in (whole | fields).items() if value is not ...}


def raw(event_id: str = "evt_1", **fields: Any) -> bytes:
    """The same as bytes."""
    return json.dumps(event(event_id, **fields)).encode()
