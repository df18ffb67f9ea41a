"""`/livez` and `/readyz`: is the process there, can it take events, and what does it promise?"""

from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

from broker.front.replies import json_response

PROMISES = {
    "full": "an acknowledged event is on disk: it survives a crash of the process and a power cut",
    "normal": "an acknowledged event survives a crash of the process, NOT a power cut (journal.synchronous: normal)",
}


class Health(Protocol):
    """What the probes need to know of the journal."""

    fatal: str | None
    problem: str | None
    critical: bool


class Probes:
    """The two probes. Readiness says why not."""

    def __init__(self, health: Health, synchronous: str, is_draining: Callable[[], bool]) -> None:
        self._health = health
        self._synchronous = synchronous
        self._is_draining = is_draining

    async def livez(self, _request: web.Request) -> web.Response:
        """200 as long as the loop turns."""
        return json_response({"status": "alive"})

    async def readyz(self, _request: web.Request) -> web.Response:
        """200 when events are taken, else 503 with the reasons."""
        reasons = []
        if self._is_draining():
            reasons.append("the broker is shutting down")
        if self._health.fatal is not None:
            reasons.append(self._health.fatal)
        elif self._health.critical:
            reasons.append(f"the journal cannot commit: {self._health.problem}")
        body: dict[str, Any] = {
            "status": "not ready" if reasons else "ready",
            "durability": self._synchronous,
            "acknowledgement": PROMISES[self._synchronous],
        }
        if reasons:
            body["reasons"] = reasons
        return json_response(body, 503 if reasons else 200)
