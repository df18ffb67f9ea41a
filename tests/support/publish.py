"""Events on a broker that runs as a process, without starting another process for them."""

import json
import urllib.request
from typing import Any

from tests.support.events import envelope
from tests.support.process import BrokerProcess


def publish(broker: BrokerProcess, stream: str, *event_ids: str, **fields: Any) -> None:
    """Put events on one stream; their payload is their id, unless it is given."""
    publish_all(broker, [(stream, event_id) for event_id in event_ids], **fields)


def publish_all(broker: BrokerProcess, events: list[tuple[str, str]], **fields: Any) -> None:
    """Put events on several streams, in one commit."""
    requests = [
        {"to": stream, "envelope": envelope(event_id, stream, **{"payload": event_id, **fields})}
        for stream, event_id in events
    ]
    body = "\n".join(map(json.dumps, requests)).encode()
    request = urllib.request.Request(f"{broker.url}/v1/enqueue", body, {"Content-Type": "application/x-ndjson"})
    with urllib.request.urlopen(request) as response:
        answers = [json.loads(line) for line in response.read().splitlines()]
    assert not [answer for answer in answers if "error" in answer]
