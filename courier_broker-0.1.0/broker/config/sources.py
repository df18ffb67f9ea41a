"""The shape of what the configuration says of sources that are pulled from (002)."""

from typing import Annotated, Any

from msgspec import Meta, field

from broker import limits
from broker.config import grammar
from broker.config.parts import Entry, EventType, HeaderName, JsonPointer, SecretText, Section, SourceName, StreamName
from broker.config.references import has_reference

HttpUrl = Annotated[str, Meta(extra={"grammar": grammar.HTTP_URL})]
SocketUrl = Annotated[str, Meta(extra={"grammar": grammar.SOCKET_URL})]
Cursor = Annotated[str, Meta(extra={"grammar": grammar.CURSOR})]
Path = tuple[str | int, ...]
Message = Annotated[str, Meta(extra={"grammar": grammar.MESSAGE})]


def shown_header(value: str) -> str:
    """A header's value as it may be shown: a reference is no secret, and anything else may be one."""
    return value if has_reference(value) else grammar.TOKEN_MASK


class Pulled(Entry, frozen=True, kw_only=True):
    """What is said of every source, of whatever kind. Values of headers never show in `repr`."""

    name: Annotated[SourceName, Meta(description="Its name; unique. The identity of its events is `source:NAME`.")]
    stream: Annotated[StreamName, Meta(description="The stream that its events go to.")]
    id: Annotated[JsonPointer, Meta(description="Where in an item its id is: text, or an integer.")] = "/id"
    items: Annotated[
        JsonPointer | None,
        Meta(
            description="Where in a document the items are; a document without them brings none. null: the document "
            "is an item, or an array of them."
        ),
    ] = None
    sequence: Annotated[JsonPointer | None, Meta(description="Where in an item its sequence is, an integer.")] = None
    time: Annotated[
        JsonPointer | None, Meta(description="Where in an item its time is: RFC 3339 with a zone, or seconds.")
    ] = None
    type: Annotated[JsonPointer | None, Meta(description="Where in an item its type is.")] = None
    default_type: Annotated[EventType, Meta(description="The type of an event whose item does not say one.")] = (
        "message"
    )
    cursor: Annotated[
        JsonPointer | None, Meta(description="Where in an item the cursor behind it is; that of the last item counts.")
    ] = None
    next_cursor: Annotated[
        JsonPointer | None, Meta(description="Where in a document the cursor behind it is; instead of `cursor`.")
    ] = None
    first_cursor: Annotated[Cursor, Meta(description="What stands for `{cursor}` as long as there is none.")] = ""
    headers: Annotated[
        dict[HeaderName, SecretText],
        Meta(description="Headers to send; `${env:NAME}` and `${file:PATH}` in them stand for secrets."),
    ] = field(default_factory=dict)
    timeout_ms: Annotated[
        int,
        Meta(
            ge=limits.SOURCE_TIMEOUT_MS_MIN,
            le=limits.SOURCE_TIMEOUT_MS_MAX,
            description="How long a request may take, its answer included, or a connection to come about.",
        ),
    ] = limits.SOURCE_TIMEOUT_MS_DEFAULT
    backoff_max_ms: Annotated[
        int,
        Meta(
            ge=limits.SOURCE_BACKOFF_MS_MIN,
            le=limits.SOURCE_BACKOFF_MS_MAX,
            description="The longest wait after failures; it begins with a second at most, and doubles.",
        ),
    ] = limits.SOURCE_BACKOFF_MS_DEFAULT

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The fields for a debugger, with the values of headers masked."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        shown["headers"] = {name: shown_header(value) for name, value in self.headers.items()}
        return list(shown.items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class RestSource(Pulled, frozen=True, kw_only=True):
    """A server that is asked for what is new, again and again."""

    url: Annotated[HttpUrl, Meta(description="What to GET; `{cursor}` in its path or query stands for the cursor.")]
    interval_ms: Annotated[
        int,
        Meta(
            ge=limits.SOURCE_INTERVAL_MS_MIN,
            le=limits.SOURCE_INTERVAL_MS_MAX,
            description="How long to wait once there is nothing more; give or take a tenth.",
        ),
    ] = limits.SOURCE_INTERVAL_MS_DEFAULT
    max_body_bytes: Annotated[
        int,
        Meta(
            ge=limits.BODY_BYTES_MIN,
            le=limits.SOURCE_BODY_BYTES_MAX,
            description="A longer answer is a failure, and is read no further.",
        ),
    ] = limits.SOURCE_BODY_BYTES_DEFAULT


class WebSocketSource(Pulled, frozen=True, kw_only=True):
    """A server that sends frames over a WebSocket."""

    url: Annotated[
        SocketUrl, Meta(description="Where to connect to; `{cursor}` in its path or query stands for the cursor.")
    ]
    first_message: Annotated[
        Message | None,
        Meta(description="What to send first; `{cursor}` in it stands for the cursor, escaped as in a JSON text."),
    ] = None
    silence_ms: Annotated[
        int,
        Meta(
            ge=limits.SOURCE_SILENCE_MS_MIN,
            le=limits.SOURCE_SILENCE_MS_MAX,
            description="After so long without a frame, a ping; after as long again, a new connection.",
        ),
    ] = limits.SOURCE_SILENCE_MS_DEFAULT


class Sources(Section, frozen=True, kw_only=True):
    """What the broker itself goes and gets."""

    rest: Annotated[tuple[RestSource, ...], Meta(description="Servers that are polled.")] = ()
    websocket: Annotated[tuple[WebSocketSource, ...], Meta(description="Servers that send over a WebSocket.")] = ()

    @property
    def named(self) -> dict[Path, RestSource | WebSocketSource]:
        """Every source by its path in the configuration."""
        found: dict[Path, RestSource | WebSocketSource] = {}
        found.update((("sources", "rest", index), each) for index, each in enumerate(self.rest))
        found.update((("sources", "websocket", index), each) for index, each in enumerate(self.websocket))
        return found
