"""What a pipe can be told: one JSON object a command, and the table that says which commands there are."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec

from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8
from broker.errors import CourierError, InvalidRequest, NotFound, TooLarge
from broker.front import control
from broker.limits import CREDIT_MAX, FILTER_TEXT_BYTES_MAX, NDJSON_LINES_MAX

if TYPE_CHECKING:
    from broker.embedded.duplex import Duplex


class Command(msgspec.Struct):
    """A command as it came."""

    number: int
    """Which command of its pipe it is; over stdio, the number of its line."""
    text: bytes
    name: str
    value: bytes
    """What stands behind its name."""
    beside: list[str]
    """What else there is in it."""


class _Subscribe(msgspec.Struct, forbid_unknown_fields=True):
    stream: str
    window: Annotated[int, msgspec.Meta(ge=1, le=CREDIT_MAX)] | None = None


class _Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    view: Annotated[str, msgspec.Meta(max_length=FILTER_TEXT_BYTES_MAX)]


_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_subscribe = msgspec.json.Decoder(str | _Subscribe).decode
_decode_snapshot = msgspec.json.Decoder(str | _Snapshot).decode

Handler = Callable[["Duplex", Command], Awaitable[None]]


def parse(number: int, text: bytes, table: Mapping[str, Handler]) -> Command:
    """Find out which command a text is; raise InvalidRequest for none, or several."""
    check_utf8(text)
    check_depth(text, levels_around=-1)  # a request within it may be as deep as one that comes by HTTP
    try:
        parts = _decode_parts(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"not a command: {error}") from None
    names = [name for name in parts if name in table]
    if len(names) != 1:
        raise InvalidRequest(f"a command is a JSON object with one of: {', '.join(table)}")
    (name,) = names
    return Command(number, text, name, bytes(parts[name]), [other for other in parts if other != name])


def _alone(command: Command) -> None:
    """Raise InvalidRequest when there is anything beside the command's own value."""
    if command.beside:
        others = ", ".join(command.beside)[:FILTER_TEXT_BYTES_MAX]
        raise InvalidRequest(f"{command.name} takes nothing beside it, but there is: {others}")


async def _enqueue(duplex: "Duplex", command: Command) -> None:
    """`{"enqueue": {"to", "envelope"}}`, or an array of them, which are kept together."""
    _alone(command)
    plain = duplex.producer.admit_frame(command.value)
    if plain is not None and len(plain) <= NDJSON_LINES_MAX:
        await duplex.keep(plain, command.number)
        return
    events: list[InboundEvent] = []
    requests = courier.split_frame(command.value)
    if len(requests) > NDJSON_LINES_MAX:
        raise TooLarge(f"there are {len(requests)} events; at most {NDJSON_LINES_MAX} are taken at once: split them")
    for position, request in enumerate(requests):
        try:
            events.append(duplex.producer.admit_request(request))
        except CourierError as error:
            if len(requests) > 1:
                error.detail["position"] = position
            duplex.refuse(error, command.number)
    if events:
        await duplex.keep(events, command.number)


async def _subscribe(duplex: "Duplex", command: Command) -> None:
    """`{"subscribe": PATTERN}`, or `{"subscribe": {"stream": PATTERN, "window": n}}`."""
    _alone(command)
    try:
        asked = _decode_subscribe(command.value)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"subscribe: {error}") from None
    if isinstance(asked, str):
        asked = _Subscribe(asked)
    duplex.subscribe(asked.stream, asked.window)


async def _settle(duplex: "Duplex", command: Command) -> None:
    """`credit`, `ack`, `nack` and `extend`, as on the WebSocket."""
    frame = control.parse(command.text)
    tap = duplex.tap
    if tap is None:
        raise InvalidRequest(f"{command.name} needs a subscription; subscribe first")
    if frame.credit is not None:
        tap.grant(frame.credit)
    if frame.ack is not None:
        for key, error in tap.ack_many(frame.keys, frame.attempt):
            _refuse(duplex, command, key, error)
        return
    for key in frame.keys:
        try:
            if frame.nack is not None:
                tap.nack(key, frame.delay_ms or 0, frame.attempt)
            else:
                tap.extend(key, frame.lease_ms or 0, frame.attempt)
        except CourierError as error:
            _refuse(duplex, command, key, error)


def _refuse(duplex: "Duplex", command: Command, key: str | int, error: CourierError) -> None:
    error.detail.setdefault("id" if isinstance(key, str) else "seq", key)
    duplex.refuse(error, command.number)


async def _snapshot(duplex: "Duplex", command: Command) -> None:
    """`{"snapshot": VIEW}`, or `{"snapshot": {"view": VIEW}}`."""
    _alone(command)
    try:
        asked = _decode_snapshot(command.value)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"snapshot: {error}") from None
    name = asked if isinstance(asked, str) else asked.view
    view = duplex.views.get(name)
    if view is None:
        known = ", ".join(duplex.views) or "none"
        raise NotFound(f"there is no view {name[:FILTER_TEXT_BYTES_MAX]!r}; known here: {known}")
    await duplex.show(name, view)


COMMANDS: dict[str, Handler] = {
    "enqueue": _enqueue,
    "subscribe": _subscribe,
    "credit": _settle,
    "ack": _settle,
    "nack": _settle,
    "extend": _settle,
    "snapshot": _snapshot,
}
"""Every command by name. A new one is a new entry."""

SETTLING = frozenset(name for name, handler in COMMANDS.items() if handler is _settle)
"""Those that a reader sends about what it has read."""
