"""A server that keeps the contract of the edge (000 §5, §7, §8) on a real SQLite inbox; and, when asked, lies.

    python -m tests.edge.reference_server INBOX [--port N] [--die-before-commit N | --die-after-commit N]

It is what the broker promises and nothing more, in few lines, so that what goes wrong in a test is the edge's. It
prints its address when it listens.
"""

import argparse
import asyncio
import json
import os
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import orjson
from aiohttp import WSMsgType, web

INBOX = """
CREATE TABLE IF NOT EXISTS event_inbox (
  event_id TEXT PRIMARY KEY, status TEXT NOT NULL, received_at TEXT NOT NULL, last_updated_at TEXT NOT NULL,
  payload TEXT NOT NULL)
"""
HTML = "<!doctype html><title>Free WiFi</title><p>Accept our terms to go on."
Lie = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def split(body: bytes) -> list[bytes]:
    """The envelopes of a frame, with their bytes as they came."""
    found = orjson.loads(body)
    if not isinstance(found, list):
        return [body]
    decoder, text, at, envelopes = json.JSONDecoder(), body.decode(), 1, []
    for _ in found:
        _, end = decoder.raw_decode(text, at)
        envelopes.append(text[at:end].encode())
        at = end + 1
    return envelopes


class ReferenceServer:
    """`async with ReferenceServer(inbox) as server: server.url`; its attributes may be changed while it runs."""

    def __init__(
        self, inbox: Path | str, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self._database = apsw.Connection(str(inbox))
        self._database.pragma("journal_mode", "wal")
        self._database.pragma("synchronous", "full")
        self._database.execute(INBOX)
        self._tls = tls
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self.window = 1000
        self.lie: Lie = lambda answers: answers
        self.refuse: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda _event: None
        """The error for an event that is not to be stored."""
        self.deaf = False
        """Answer nothing, and store nothing."""
        self.html = False
        self.close_after_a_frame = False
        self.close_unanswered = False
        """Store what came, and close the line in the place of an answer."""
        self.answering = asyncio.Event()
        """While it is not set, answers are held back."""
        self.answering.set()
        self.one_by_one = False
        """Answer each event in a frame of its own, with a turn of the loop between."""
        self.status: tuple[int, dict[str, str], bytes] | None = None
        """What to answer to every request instead."""
        self.connections = 0
        self.received: list[str] = []
        self.batches: list[int] = []
        self.unanswered_most = 0
        self.headers: dict[str, str] = {}
        self.commits = 0
        self.die_before_commit = self.die_after_commit = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    @property
    def url(self) -> str:
        """Where it is, for a WebSocket."""
        return f"{'wss' if self._tls else 'ws'}://{self._host}:{self._port}"

    @property
    def http_url(self) -> str:
        """Where it is, for posts."""
        return f"{'https' if self._tls else 'http'}://{self._host}:{self._port}"

    async def __aenter__(self) -> "ReferenceServer":
        await self.start()
        return self

    async def start(self) -> None:
        """Listen; again on the same port, after a stop."""
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/v1/ingress", self._ingress)
        app.router.add_post("/v1/events", self._events)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        self._database.close()

    async def stop(self) -> None:
        """Cut every line, and listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def stored(self) -> dict[str, bytes]:
        """What the inbox holds."""
        rows = self._database.execute("SELECT event_id, payload FROM event_inbox")
        return {event_id: payload.encode() for event_id, payload in rows}

    async def _ingress(self, request: web.Request) -> web.StreamResponse:
        self.connections += 1
        self.headers = dict(request.headers)
        if self.html or self.status is not None:
            return self._instead()
        socket = web.WebSocketResponse(max_msg_size=2**26)
        await socket.prepare(request)
        await socket.send_json({"window": self.window})
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            if self.deaf:
                continue
            answers = self._take(message.data.encode())
            await self.answering.wait()
            if self.close_unanswered:
                break
            if self.one_by_one:
                for answer in answers:
                    await socket.send_bytes(orjson.dumps(answer))
                    await asyncio.sleep(0)
            elif answers:
                await socket.send_str(orjson.dumps(answers).decode())
            if self.close_after_a_frame:
                await socket.close()
        return socket

    async def _events(self, request: web.Request) -> web.StreamResponse:
        self.connections += 1
        self.headers = dict(request.headers)
        if self.html or self.status is not None:
            return self._instead()
        body = await request.read()
        answers = self._take(body)
        return web.Response(
            body=orjson.dumps(answers if body.startswith(b"[") else answers[0]), content_type="application/json"
        )

    def _instead(self) -> web.Response:
        if self.html:
            return web.Response(text=HTML, content_type="text/html")
        assert self.status is not None
        status, headers, body = self.status
        return web.Response(status=status, headers=headers, body=body)

    def _take(self, body: bytes) -> list[dict[str, Any]]:
        envelopes = split(body)
        self.batches.append(len(envelopes))
        self._database.execute("BEGIN IMMEDIATE")
        try:
            answers = [self._store(envelope) for envelope in envelopes]
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self.commits += 1
        self._die_if(self.die_before_commit)
        self._database.execute("COMMIT")
        self._die_if(self.die_after_commit)
        return self.lie(answers)

    def _die_if(self, at_commit: int) -> None:
        if at_commit == self.commits:
            os.kill(os.getpid(), signal.SIGKILL)

    def _store(self, envelope: bytes) -> dict[str, Any]:
        event = orjson.loads(envelope)
        event_id = event["event_id"]
        self.received.append(event_id)
        error = self.refuse(event)
        if error is not None:
            return {"event_id": event_id, "status": "error" if error.get("retryable") else "rejected", "error": error}
        self._database.execute(
            "INSERT INTO event_inbox VALUES (?, 'received', 'now', 'now', ?) ON CONFLICT DO NOTHING",
            (event_id, envelope.decode()),
        )
        duplicate = {} if self._database.changes() else {"duplicate": True}
        return {"event_id": event_id, "ack_ts": "2026-01-01T00:00:00Z", "status": "stored", **duplicate}


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("inbox")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--die-before-commit", type=int, default=0)
    parser.add_argument("--die-after-commit", type=int, default=0)
    given = parser.parse_args()
    async with ReferenceServer(given.inbox, port=given.port) as server:
        server.die_before_commit, server.die_after_commit = given.die_before_commit, given.die_after_commit
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
