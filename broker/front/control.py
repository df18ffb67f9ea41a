"""The control frames of a subscriber: credit, ack, nack and extend, for one event or several."""

from typing import Annotated

import msgspec

from broker.errors import InvalidRequest
from broker.limits import EVENT_ID_BYTES_MAX, KEYS_PER_FRAME_MAX, SEQ_MAX

EventId = Annotated[str, msgspec.Meta(max_length=EVENT_ID_BYTES_MAX)]
Seq = Annotated[int, msgspec.Meta(ge=1, le=SEQ_MAX)]
Key = EventId | Seq
Keys = Key | Annotated[list[Key], msgspec.Meta(min_length=1, max_length=KEYS_PER_FRAME_MAX)] | None


class Control(msgspec.Struct, forbid_unknown_fields=True):
    """A control frame as it came; `is_one_command` says whether its parts belong together."""

    credit: int | None = None
    ack: Keys = None
    nack: Keys = None
    extend: Keys = None
    attempt: int | None = None
    delay_ms: int | None = msgspec.field(name="delayMs", default=None)
    lease_ms: int | None = msgspec.field(name="leaseMs", default=None)

    @property
    def named(self) -> Keys:
        """What an ack, nack or extend names, as it came."""
        return next((keys for keys in (self.ack, self.nack, self.extend) if keys is not None), None)

    @property
    def keys(self) -> list[str | int]:
        """The events that it names, by id or by sequence."""
        named = self.named
        return named if isinstance(named, list) else [] if named is None else [named]

    @property
    def is_one_command(self) -> bool:
        """Whether it is exactly one of the four commands, with no option of another."""
        commands = (self.credit, self.ack, self.nack, self.extend)
        return (
            sum(command is not None for command in commands) == 1
            and (self.delay_ms is None or self.nack is not None)
            and (self.lease_ms is None) == (self.extend is None)
            and (self.attempt is None or isinstance(self.named, str | int))
        )


_decode = msgspec.json.Decoder(Control).decode


def parse(text: bytes) -> Control:
    """Read a control frame; raise InvalidRequest for anything else."""
    try:
        control = _decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"not a control frame: {error}") from None
    if not control.is_one_command:
        raise InvalidRequest(
            'a control frame is one of {"credit": n}, {"ack": id}, {"nack": id, "delayMs": n} '
            'and {"extend": id, "leaseMs": n}, '
            'where id may be a seq or an array of both, and a single one may have its "attempt": n'
        )
    return control
