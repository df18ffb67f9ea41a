"""The shape of the configuration: every key, its type, default, bounds and meaning.

Everything else in this room is driven by these types. The checks read their bounds, the environment and
the flags take their names from them, and the reference page is printed from their descriptions, so that
a new key is one new field and nothing more. On the wire names are camelCase.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from broker import limits
from broker.config import grammar

# Keys that this version accepts and checks, but does not act on yet: `serve` warns when one is set, and
# the reference page says so. Remove a key here when it comes alive.
NOT_YET_ACTIVE = frozenset({"triggers"})

Depth = Annotated[int, Meta(ge=1, le=limits.STREAM_DEPTH_MAX)]
LeaseMs = Annotated[int, Meta(ge=limits.LEASE_MS_MIN, le=limits.LEASE_MS_MAX)]
Deliveries = Annotated[int, Meta(ge=1, le=limits.DELIVERIES_MAX)]
AgeSeconds = Annotated[int, Meta(ge=limits.RETENTION_AGE_SECONDS_MIN, le=limits.RETENTION_AGE_SECONDS_MAX)]
StoredBytes = Annotated[int, Meta(ge=limits.RETENTION_BYTES_MIN, le=limits.RETENTION_BYTES_MAX)]
Durability = Literal["journal", "memory"]

AllowedHost = Annotated[str, Meta(extra={"grammar": grammar.ALLOWED_HOST})]
Origin = Annotated[str, Meta(extra={"grammar": grammar.ORIGIN})]
StreamName = Annotated[str, Meta(extra={"grammar": grammar.STREAM})]
StreamPattern = Annotated[str, Meta(extra={"grammar": grammar.PATTERN})]
Scope = Annotated[str, Meta(extra={"grammar": grammar.SCOPE})]
PlainToken = Annotated[str, Meta(extra={"grammar": grammar.TOKEN})]
TokenHash = Annotated[str, Meta(extra={"grammar": grammar.TOKEN_HASH})]
PrincipalName = Annotated[str, Meta(extra={"grammar": grammar.PRINCIPAL})]
TriggerId = Annotated[str, Meta(extra={"grammar": grammar.TRIGGER_ID})]
Sender = Annotated[str, Meta(extra={"grammar": grammar.SOURCE})]
EventType = Annotated[str, Meta(extra={"grammar": grammar.EVENT_TYPE})]
Tag = Annotated[str, Meta(extra={"grammar": grammar.TAG})]
MapKey = Annotated[str, Meta(extra={"grammar": grammar.MAP_KEY})]
Directory = Annotated[str, Meta(extra={"grammar": grammar.DIRECTORY})]
HeaderValue = str | int | float | bool


class Section(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the configuration that is always there, and is shown in full."""


class Entry(Section, frozen=True, kw_only=True, omit_defaults=True):
    """An element of a list or a map: what was left out of it stays out when it is shown."""


class Rate(Entry, frozen=True, kw_only=True):
    """A token bucket."""

    per_second: Annotated[
        float,
        Meta(
            ge=limits.RATE_PER_SECOND_MIN,
            le=limits.RATE_PER_SECOND_MAX,
            description="How many a second may pass in the long run.",
        ),
    ]
    burst: Annotated[int, Meta(ge=1, le=limits.RATE_BURST_MAX, description="How many may pass at once after a pause.")]


class Server(Section, frozen=True, kw_only=True):
    """Where the broker listens, and how much it lets in."""

    host: Annotated[
        str,
        Meta(
            extra={"grammar": grammar.HOST},
            description="The address to listen on. Without `auth.tokens`, loopback only.",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=limits.PORT_MAX, description="The TCP port to listen on; 0 takes any free one.")
    ] = 8787
    drain_ms: Annotated[
        int,
        Meta(
            ge=limits.DRAIN_MS_MIN,
            le=limits.DRAIN_MS_MAX,
            description="How long a stop waits for what is under way.",
        ),
    ] = limits.DRAIN_MS_DEFAULT
    max_body_bytes: Annotated[
        int,
        Meta(
            ge=limits.BODY_BYTES_MIN,
            le=limits.BODY_BYTES_MAX,
            description="A longer request body is answered with `413 too_large`.",
        ),
    ] = limits.BODY_BYTES_DEFAULT
    max_connections: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.CONNECTIONS_MAX,
            description="How many connections may be open at once; past it, `503 saturated`.",
        ),
    ] = limits.CONNECTIONS_DEFAULT
    read_timeout_ms: Annotated[
        int,
        Meta(
            ge=limits.READ_TIMEOUT_MS_MIN,
            le=limits.READ_TIMEOUT_MS_MAX,
            description="How long a client may take to send one request, body included; then `408 request_timeout`.",
        ),
    ] = limits.READ_TIMEOUT_MS_DEFAULT
    allowed_hosts: Annotated[
        tuple[AllowedHost, ...],
        Meta(description="`Host` headers to accept, exactly. Empty: the loopback names and the bound address."),
    ] = ()
    allowed_origins: Annotated[
        tuple[Origin, ...],
        Meta(description="`Origin` headers to accept, exactly. Empty: no web page of another origin."),
    ] = ()


class Retention(Section, frozen=True, kw_only=True):
    """How long finished events keep their contents."""

    max_age_seconds: Annotated[
        AgeSeconds | None, Meta(description="Empty finished events that are older; null keeps them.")
    ] = None
    max_bytes: Annotated[
        StoredBytes | None, Meta(description="Empty the oldest finished events past this size; null: no bound.")
    ] = None


class Journal(Section, frozen=True, kw_only=True):
    """How events reach the disk."""

    synchronous: Annotated[
        Literal["full", "normal"],
        Meta(description="`full` survives a power cut; `normal` is faster and survives a crash of the process only."),
    ] = "full"
    linger_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.COMMIT_LINGER_MS_MAX,
            description="How long the writer waits for more events before it commits a group.",
        ),
    ] = 0
    queue_max: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.INGEST_QUEUE_MAX,
            description="How many events may wait for the writer; past it, `503 saturated`.",
        ),
    ] = limits.INGEST_QUEUE_DEFAULT
    dedupe_entries: Annotated[
        int,
        Meta(
            ge=limits.DEDUPE_ENTRIES_MIN,
            le=limits.DEDUPE_ENTRIES_MAX,
            description="How many identities of streams in memory are remembered. "
            f"At least `journal.queueMax` + {limits.COMMIT_BATCH_MAX}, so that all that is in flight fits.",
        ),
    ] = limits.DEDUPE_ENTRIES_DEFAULT
    wal_max_bytes: Annotated[
        int,
        Meta(
            ge=limits.WAL_BYTES_MIN,
            le=limits.WAL_BYTES_MAX,
            description="Past this size of the write-ahead log, checkpoints work harder and an alarm is raised.",
        ),
    ] = limits.WAL_BYTES_DEFAULT
    readers: Annotated[
        int, Meta(ge=1, le=limits.READERS_MAX, description="How many read-only connections serve queries.")
    ] = limits.READERS_DEFAULT
    retention: Annotated[Retention, Meta(description="How long finished events keep their contents.")] = Retention()


class StreamCaps(Entry, frozen=True, kw_only=True):
    """What differs for the streams that a pattern selects; None leaves the general setting."""

    max_depth: Annotated[Depth | None, Meta(description="Instead of `streams.maxDepth`.")] = None
    lease_ms: Annotated[LeaseMs | None, Meta(description="Instead of `streams.defaultLeaseMs`.")] = None
    max_deliveries: Annotated[Deliveries | None, Meta(description="Instead of `streams.maxDeliveries`.")] = None
    durability: Annotated[Durability | None, Meta(description="Instead of `streams.durability`.")] = None
    rate: Annotated[Rate | None, Meta(description="A token bucket for each of these streams.")] = None


class Streams(Section, frozen=True, kw_only=True):
    """How streams behave."""

    default_lease_ms: Annotated[
        LeaseMs, Meta(description="How long a consumer may hold a delivery before it goes to another.")
    ] = limits.LEASE_MS_DEFAULT
    max_depth: Annotated[
        Depth,
        Meta(description="How many events of one stream are in memory; more wait in the ledger, or are refused."),
    ] = limits.STREAM_DEPTH_DEFAULT
    max_deliveries: Annotated[
        Deliveries, Meta(description="After this many deliveries without an ack, an event is a dead letter.")
    ] = limits.DELIVERIES_DEFAULT
    auto_create: Annotated[
        bool,
        Meta(
            description="Create a stream on its first use; else only those that `streams.perStreamCaps` selects exist."
        ),
    ] = True
    durability: Annotated[
        Durability, Meta(description="`journal`: on disk before it is acknowledged. `memory`: lost on restart.")
    ] = "journal"
    per_stream_caps: Annotated[
        dict[StreamPattern, StreamCaps],
        Meta(description="Settings by pattern of stream names; the most specific pattern wins."),
    ] = {}


class When(Entry, frozen=True, kw_only=True):
    """Which envelopes a trigger is for: all that is given must match."""

    to: Annotated[StreamPattern | None, Meta(description="The stream, by pattern.")] = None
    from_: Annotated[Sender | None, Meta(description="The sender, exactly.")] = field(default=None, name="from")
    type: Annotated[EventType | None, Meta(description="The type, exactly.")] = None
    tags: Annotated[tuple[Tag, ...], Meta(description="Tags that must all be there.")] = ()
    headers: Annotated[
        dict[MapKey, HeaderValue], Meta(description="Headers that must all be there with these values.")
    ] = {}


class Action(Entry, frozen=True, kw_only=True):
    """What a trigger does with an envelope that matches."""

    action: Annotated[
        Literal["enrich", "notify", "route"],
        Meta(description="`notify` emits a new envelope, `route` passes this one on, `enrich` adds to it."),
    ]
    to: Annotated[StreamName | None, Meta(description="The stream to write to; `notify` and `route` need it.")] = None
    type: Annotated[EventType | None, Meta(description="The type of the new envelope.")] = None
    payload: Annotated[Any, Meta(description="The payload; `${env.id}` stands for a field of the envelope.")] = None
    tags: Annotated[tuple[Tag, ...], Meta(description="Tags of the new envelope.")] = ()
    headers: Annotated[dict[MapKey, HeaderValue], Meta(description="Headers of the new envelope.")] = {}


class TriggerLimits(Entry, frozen=True, kw_only=True):
    """What keeps a trigger from making a storm."""

    cooldown_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.TRIGGER_COOLDOWN_MS_MAX,
            description="After it ran, a trigger rests for this long.",
        ),
    ] = 0


class Trigger(Entry, frozen=True, kw_only=True):
    """A rule that is evaluated when an envelope is inserted."""

    id: Annotated[TriggerId, Meta(description="The name of the rule; unique.")]
    when: Annotated[When, Meta(description="Which envelopes it is for.")]
    do: Annotated[tuple[Action, ...], Meta(min_length=1, description="What to do, in order.")]
    limits: Annotated[TriggerLimits, Meta(description="What keeps it from making a storm.")] = TriggerLimits()


class Token(Entry, frozen=True, kw_only=True):
    """A bearer token and what it may do. Its plain text never shows in `repr`, so not in a log or traceback either."""

    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, description="What the bearer may do.")]
    token: Annotated[PlainToken | None, Meta(description="The token itself, for development.")] = None
    token_hash: Annotated[TokenHash | None, Meta(description="`sha256:` and the digest of the token.")] = None
    name: Annotated[
        PrincipalName, Meta(description="The principal; unique. Left out: `token-1`, `token-2`, … by position.")
    ] = ""
    rate: Annotated[Rate | None, Meta(description="A token bucket for this token.")] = None

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The fields for a debugger, with the secret masked."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        if self.token is not None:
            shown["token"] = grammar.TOKEN_MASK
        return list(shown.items())

    def __repr__(self) -> str:
        return f"Token({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class Auth(Section, frozen=True, kw_only=True):
    """Who may do what."""

    tokens: Annotated[
        tuple[Token, ...], Meta(description="The known tokens. Empty: this machine only, without a token.")
    ] = ()


class Pixel(Section, frozen=True, kw_only=True):
    """How the events of game-server plugins are taken."""

    api_key_header: Annotated[
        str,
        Meta(extra={"grammar": grammar.HEADER}, description="The header in which a token may come, besides a bearer."),
    ] = "X-Pixel-Control-Api-Key"
    schemas: Annotated[
        Directory | None, Meta(description="A directory with schemas of more versions, and of payloads.")
    ] = None
    payload_schemas: Annotated[
        Literal["enforce", "off", "warn"],
        Meta(
            description="What a payload that breaks its schema comes to: `enforce` refuses it, `warn` notes it on the "
            "receipt, `off` does not look."
        ),
    ] = "warn"


class CloudEvents(Section, frozen=True, kw_only=True):
    """Where CloudEvents go."""

    stream: Annotated[
        StreamName | None, Meta(description="The stream of those whose `subject` does not name one; null refuses them.")
    ] = None


class Log(Section, frozen=True, kw_only=True):
    """What the broker says about itself."""

    level: Annotated[
        Literal["debug", "error", "info", "warning"], Meta(description="The least severe level that is written.")
    ] = "info"
    format: Annotated[
        Literal["auto", "human", "json"], Meta(description="`auto`: for people on a terminal, else JSON lines.")
    ] = "auto"


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration."""

    server: Annotated[Server, Meta(description="Where the broker listens, and how much it lets in.")] = Server()
    data: Annotated[
        str,
        Meta(
            extra={"grammar": grammar.DIRECTORY},
            description="The directory of the journal; relative to the working directory.",
        ),
    ] = "./data"
    journal: Annotated[Journal, Meta(description="How events reach the disk.")] = Journal()
    streams: Annotated[Streams, Meta(description="How streams behave.")] = Streams()
    triggers: Annotated[
        tuple[Trigger, ...], Meta(description="Rules that are evaluated when an envelope is inserted.")
    ] = ()
    auth: Annotated[Auth, Meta(description="Who may do what.")] = Auth()
    pixel: Annotated[Pixel, Meta(description="How the events of game-server plugins are taken.")] = Pixel()
    cloudevents: Annotated[CloudEvents, Meta(description="Where CloudEvents go.")] = CloudEvents()
    log: Annotated[Log, Meta(description="What the broker says about itself.")] = Log()
