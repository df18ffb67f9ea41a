"""Bounded load on `POST /v1/enqueue` that tries to confuse the broker, and tells the oracle what it was answered.

Several keep-alive connections send, mixed by a seeded random generator: new events, repetitions of old ones,
repetitions of events that are still in flight on another connection, other bytes under a known id, and
requests that must be refused.
"""

import asyncio
import random
from typing import Any

import aiohttp
import orjson

from tests.adversity.oracle import Identity, Oracle

REQUEST_SECONDS_MAX = 30.0
JSON = {"Content-Type": "application/json"}
CUT = (aiohttp.ClientError, TimeoutError, OSError)


class Refused(AssertionError):
    """A valid event was answered with 4xx, or an invalid one was taken."""


def identity_of(stream: str, event_id: str) -> Identity:
    """The identity under which the broker stores an event of the Courier contract."""
    return (f"stream:{stream}", event_id)


def envelope_of(stream: str, event_id: str, payload: Any, **other: Any) -> bytes:
    """An envelope as the bytes that a producer would send."""
    fields = {"id": event_id, "ts": "2026-02-19T18:30:00Z", "to": stream, "type": "load", "payload": payload}
    return orjson.dumps(fields | other)


def client(connections: int = 8) -> aiohttp.ClientSession:
    """A session with so many keep-alive connections."""
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections), timeout=timeout)


class Load:
    """A generator of load. `run` may be called for one broker after another; ids go on where they stopped."""

    def __init__(
        self, oracle: Oracle, *, connections: int = 8, payload_bytes_max: int = 600, streams: int = 3, prefix: str = "e"
    ) -> None:
        self.oracle = oracle
        self.statuses: list[int] = []
        """The status of every answer, in the order in which they came."""
        self.failed = False
        """Whether some answer left the client in doubt since `run` began."""
        self.acknowledged_after_failure = 0
        """How many requests were acknowledged that were sent when another one had failed already."""
        self.progress = asyncio.Condition()
        self._rng = random.Random(oracle.seed)
        self._connections = connections
        self._payload_bytes_max = payload_bytes_max
        self._streams = [f"load/{number}" for number in range(streams)]
        self._prefix = prefix
        self._number = 0
        self._left = 0
        self._until_failure = False
        self._known: list[tuple[Identity, bytes]] = []
        self._in_flight: dict[int, tuple[Identity, bytes]] = {}

    async def run(self, url: str, requests: int, *, until_failure: bool = False) -> None:
        """Send so many requests, or fewer if the line is cut (or, if asked for, at the first 5xx)."""
        self._left = requests
        self._until_failure = until_failure
        self.failed = False
        async with client(self._connections) as session, asyncio.TaskGroup() as group:
            for connection in range(self._connections):
                group.create_task(self._connection(session, url, connection))

    async def acknowledgements(self, count: int) -> None:
        """Wait until the oracle has heard of so many, or a connection has failed."""
        async with self.progress:
            await self.progress.wait_for(lambda: len(self.oracle.acknowledged) >= count or self.failed)

    async def settle_doubts(self, url: str) -> int:
        """Send everything that is in doubt again, to a broker that is well; how many that were."""
        doubts = list(self.oracle.doubts)
        async with client() as session:
            for identity, envelope in doubts:
                await self.send(session, url, identity, envelope)
        left = [(identity, why) for (identity, _), why in self.oracle.doubts.items()]
        assert not left, f"seed {self.oracle.seed}: {len(left)} are still in doubt: {left[:5]}"
        return len(doubts)

    async def send(self, session: aiohttp.ClientSession, url: str, identity: Identity, envelope: bytes) -> int:
        """Send one valid event and tell the oracle; its status, 0 when the line was cut."""
        stream = identity[0].removeprefix("stream:")
        body = b'{"to":%b,"envelope":%b}' % (orjson.dumps(stream), envelope)
        status = await self._post(session, url, identity, envelope, body)
        if 400 <= status < 500:
            raise Refused(f"seed {self.oracle.seed}: {identity} is valid, but was answered with {status}")
        return status

    async def _connection(self, session: aiohttp.ClientSession, url: str, connection: int) -> None:
        while self._left > 0:
            self._left -= 1
            choice = self._rng.random()
            if choice < 0.08:
                status = await self._send_invalid(session, url)
            else:
                identity, envelope = self._event(choice, connection)
                self._in_flight[connection] = (identity, envelope)
                try:
                    status = await self.send(session, url, identity, envelope)
                finally:
                    del self._in_flight[connection]
                if status == 200:
                    self._known.append((identity, envelope))
            if status == 0 or (self._until_failure and self.failed):
                return

    def _event(self, choice: float, connection: int) -> tuple[Identity, bytes]:
        """A new event mostly, else one that was sent before or is being sent now."""
        elsewhere = [event for other, event in self._in_flight.items() if other != connection]
        if choice < 0.20 and elsewhere:
            return self._rng.choice(elsewhere)
        if choice < 0.28 and self._known:
            return self._rng.choice(self._known)
        if choice < 0.34 and (self._known or elsewhere):
            identity, _ = self._rng.choice(elsewhere or self._known)
            stream = identity[0].removeprefix("stream:")
            return identity, envelope_of(stream, identity[1], {"conflict": self._rng.getrandbits(32)})
        return self.new_event()

    def new_event(self) -> tuple[Identity, bytes]:
        """An event that was never sent, with a payload of random length."""
        self._number += 1
        stream = self._rng.choice(self._streams)
        event_id = f"{self._prefix}-{self._number}"
        filling = self._rng.randbytes(self._rng.randint(0, self._payload_bytes_max) // 2).hex()
        return identity_of(stream, event_id), envelope_of(stream, event_id, {"n": self._number, "filling": filling})

    async def _send_invalid(self, session: aiohttp.ClientSession, url: str) -> int:
        self._number += 1
        event_id = f"{self._prefix}-invalid-{self._number}"
        good = envelope_of("load/0", event_id, None)
        body, envelope = self._rng.choice(
            [
                (b'{"to":"load/1","envelope":%b}' % good, good),
                (b'{"to":"load/0","envelope":%b' % good, good),
                (b'{"to":"load/0","envelope":{"id":"%b"}}' % event_id.encode(), b'{"id":"%b"}' % event_id.encode()),
                (b'{"to":"load/0","envelope":%b}' % good.replace(b"load", b"\xff\xfe"), good),
                (b'{"to":"load/0","envelope":%b}' % envelope_of("load/0", f"{event_id}\x00", 1), good),
                (b'{"to":"a/../b","envelope":%b}' % envelope_of("a/../b", event_id, 1), good),
            ]
        )
        status = await self._post(session, url, identity_of("load/0", event_id), envelope, body, valid=False)
        if 200 <= status < 300:
            raise Refused(f"seed {self.oracle.seed}: this is invalid, but was answered with {status}: {body!r}")
        return status

    async def _post(
        self,
        session: aiohttp.ClientSession,
        url: str,
        identity: Identity,
        envelope: bytes,
        body: bytes,
        *,
        valid: bool = True,
    ) -> int:
        oracle = self.oracle
        oracle.sending(identity, envelope)
        failed_before = self.failed
        status, answer, why = 0, {}, "cancelled"
        try:
            async with session.post(f"{url}/v1/enqueue", data=body, headers=JSON) as response:
                answer = orjson.loads(await response.read())
                status, why = response.status, f"{response.status} {answer.get('error')}"
        except CUT as error:
            why = repr(error)
        finally:
            if 200 <= status < 300:
                oracle.told(
                    identity,
                    envelope,
                    answer["seq"],
                    duplicate=answer["duplicate"],
                    payload_conflict=answer.get("payload_conflict", False),
                )
                self.acknowledged_after_failure += failed_before
            else:
                if not valid or 400 <= status < 500:  # invalid and unanswered: it must not be there either
                    oracle.refused(identity, envelope)
                else:
                    oracle.in_doubt(identity, envelope, why)
                self.failed = self.failed or status == 0 or status >= 500
        self.statuses.append(status)
        async with self.progress:
            self.progress.notify_all()
        return status
