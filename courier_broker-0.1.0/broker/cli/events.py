"""An event as one line for a person."""

from typing import Any

import msgspec

from broker.cli.terminal import shown, styled


class _Head(msgspec.Struct):
    """What a line shows of an envelope; every contract has some of it."""

    id: Any = None
    type: Any = None
    to: Any = None
    payload: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Head).decode


def one_line(envelope: bytes) -> bytes:
    """The JSON of an envelope without the spaces and line breaks between its parts."""
    return msgspec.json.format(envelope, indent=-1)


def event_line(seq: int, stream: str | None, envelope: bytes, attempt: int = 1) -> str:
    """Sequence, stream, type, id and payload; the whole envelope where that has another shape."""
    try:
        head = _decode(envelope)
    except msgspec.MsgspecError:
        head = _Head()
    payload = bytes(head.payload) or envelope
    parts = [
        styled(str(seq), fg="cyan"),
        styled(shown(stream or str(head.to or "")), bold=True),
        *(shown(str(part)) for part in (head.type, head.id) if part is not None),
        shown(one_line(payload).decode()),
    ]
    if attempt > 1:
        parts.append(styled(f"(attempt {attempt})", fg="yellow"))
    return "  ".join(parts)
