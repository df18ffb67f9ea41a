"""What a user is to be told."""

import uuid
from dataclasses import dataclass, field

from broker.bus import Event


@dataclass(frozen=True, slots=True)
class Message:
    """One message to a user. Of an answer that is streamed, `text` is empty until the whole of it is known."""

    text: str
    extension_id: str
    """Whose message it is."""
    channel_id: str | None = None
    """The channel that was asked for; None for the default one."""
    event: Event | None = None
    """What it is about."""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    """Its own name. A message that is sent again after an error of the network keeps it."""
