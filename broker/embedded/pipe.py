"""Pipe: a duplex of commands and messages for a program and its kernel (003 §13)."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import msgspec
import orjson

from broker.embedded.duplex import Duplex
from broker.errors import InvalidEnvelope, InvalidRequest
from broker.limits import WRITE_BYTES_MAX

_decode = msgspec.json.Decoder().decode


class Pipe:
    """Commands in, messages out: `send` and `async for`. Close it, or use it as an `async with` block.

    Who sends must read too, in turn or in another task: while too many answers are not read, `send` waits. What a
    reader says about what it has read (`credit`, `ack`, `nack`, `extend`) does not wait for the answers of others.
    """

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex
        self._sent = 0

    async def send(self, command: Mapping[str, Any] | bytes | str) -> None:
        """Obey a command: a mapping, or JSON. What there is to say to it comes out as a message.

        It waits while the journal is behind, or while too many messages are not read. Raise Draining after `close`.
        """
        if isinstance(command, str):
            text = command.encode(errors="surrogatepass")
        elif isinstance(command, bytes):
            text = command
        else:
            try:
                text = orjson.dumps(command, option=orjson.OPT_UTC_Z)
            except TypeError as error:
                raise InvalidRequest(f"the command cannot be written as JSON: {error}") from None
        self._sent += 1
        await self._duplex.obey(text, self._sent)

    def __aiter__(self) -> "Pipe":
        return self

    async def __anext__(self) -> dict[str, Any]:
        """The next message; the end when the pipe is closed and all its answers were read."""
        following = await self._duplex.next_line()
        if following is None:
            raise StopAsyncIteration
        line, seq = following
        try:
            message: dict[str, Any] = _decode(line)
        except msgspec.DecodeError as error:  # 1e400 is JSON, but no float
            problem = f"the envelope cannot be read as Python values: {error}; read it with read_lines"
            return {"error": InvalidEnvelope(problem, seq=seq).as_dict()}
        return message

    async def read_lines(self, bytes_max: int = WRITE_BYTES_MAX) -> bytes:
        """The next messages as lines of JSON, at least one and not many more than `bytes_max`; b"" at the end."""
        return await self._duplex.read_lines(bytes_max)

    async def close(self) -> None:
        """Take no further command, and wait until every event is answered; the answers can still be read.

        What is leased goes back: no ack could come any more. What was not read does not count as an attempt.
        """
        await self._duplex.close()

    async def __aenter__(self) -> "Pipe":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
