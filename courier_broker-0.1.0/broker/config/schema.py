"""The shape of the configuration: every key, its type, default, bounds and meaning.

Everything else in this room is driven by these types. The checks read their bounds, the environment and
the flags take their names from them, and the reference page is printed from their descriptions, so that
a new key is one new field and nothing more. On the wire names are camelCase.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from broker import limits
from broker.config import grammar
from broker.config.contracts import CloudEvents, Grpc, Pixel
from broker.config.parts import (
    AgeSeconds,
    AllowedHost,
    Deliveries,
    Depth,
    Durability,
    EffectFile,
    Entry,
    LeaseMs,
    LogFile,
    Origin,
    PlainToken,
    PrincipalName,
    Scope,
    Section,
    StoredBytes,
    StreamPattern,
    TokenHash,
    TokensFile,
)
from broker.config.sources import Sources
from broker.config.triggers import Trigger

# Keys that this version accepts and checks, but does not act on yet: `serve` warns when one is set, and
# the reference page says so. Remove a key here when it comes alive.
NOT_YET_ACTIVE: frozenset[str] = frozenset()


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
        Meta(
            description="How many events a stream in memory holds before it refuses more; "
            "a durable one keeps the rest in the ledger."
        ),
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
        Meta(description="Settings by pattern of stream names; each is that of the most specific one that gives it."),
    ] = field(default_factory=dict)


class Views(Section, frozen=True, kw_only=True):
    """What is kept of the views."""

    max_entries: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.VIEW_ENTRIES_MAX,
            description="How many addresses a view holds; past it, the one that was quiet for longest is forgotten.",
        ),
    ] = limits.VIEW_ENTRIES_DEFAULT
    max_bytes: Annotated[
        int,
        Meta(
            ge=limits.VIEW_BYTES_MIN,
            le=limits.VIEW_BYTES_MAX,
            description="How many bytes of envelopes a view holds; past it, likewise.",
        ),
    ] = limits.VIEW_BYTES_DEFAULT


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
    tokens_file: Annotated[
        TokensFile | None,
        Meta(description="A YAML list of more such entries, relative to the working directory; null: none."),
    ] = None


class Log(Section, frozen=True, kw_only=True):
    """What the broker says about itself."""

    level: Annotated[
        Literal["debug", "error", "info", "warning"], Meta(description="The least severe level that is written.")
    ] = "info"
    format: Annotated[
        Literal["auto", "human", "json"], Meta(description="`auto`: for people on a terminal, else JSON lines.")
    ] = "auto"


class Events(Section, frozen=True, kw_only=True):
    """A line for each thing that happens to an event."""

    log: Annotated[
        LogFile | None, Meta(description="A file for lines of JSON, relative to the working directory; null: none.")
    ] = None
    max_bytes: Annotated[
        int,
        Meta(
            ge=limits.EVENT_LOG_BYTES_MIN,
            le=limits.EVENT_LOG_BYTES_MAX,
            description="Past this size, the file is renamed and a new one begun.",
        ),
    ] = limits.EVENT_LOG_BYTES_DEFAULT
    keep: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.EVENT_LOG_KEEP_MAX,
            description="How many renamed files are kept: `FILE.1`, the newest, to `FILE.n`.",
        ),
    ] = limits.EVENT_LOG_KEEP_DEFAULT


class Bus(Section, frozen=True, kw_only=True):
    """How the event bus runs its handlers."""

    batch: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.BUS_BATCH_MAX,
            description="How many events of a topic are taken from its stream at once; more, if a handler may have "
            "more at once.",
        ),
    ] = limits.BUS_BATCH_DEFAULT
    max_running: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.BUS_RUNNING_MAX,
            description="How many events are handled at once, in all topics together.",
        ),
    ] = limits.BUS_RUNNING_DEFAULT
    stop_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.BUS_STOP_MS_MAX,
            description="How long a stop waits for handlers before their events are given back.",
        ),
    ] = limits.BUS_STOP_MS_DEFAULT


class Metrics(Section, frozen=True, kw_only=True):
    """What `/metrics` shows."""

    max_streams: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.METRIC_STREAMS_MAX,
            description="How many streams have a label of their own; the others are one, `(other)`.",
        ),
    ] = limits.METRIC_STREAMS_DEFAULT


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
    views: Annotated[Views, Meta(description="What is kept of the views.")] = Views()
    triggers: Annotated[
        tuple[Trigger, ...], Meta(description="Rules that are evaluated when an envelope is inserted.")
    ] = ()
    bus: Annotated[Bus, Meta(description="How the event bus runs its handlers.")] = Bus()
    auth: Annotated[Auth, Meta(description="Who may do what.")] = Auth()
    pixel: Annotated[Pixel, Meta(description="How the events of game-server plugins are taken.")] = Pixel()
    cloudevents: Annotated[CloudEvents, Meta(description="Where CloudEvents go.")] = CloudEvents()
    grpc: Annotated[Grpc, Meta(description="Where the events of devices are taken over gRPC.")] = Grpc()
    effects: Annotated[
        tuple[EffectFile, ...],
        Meta(description="Files of Python with effects of plugin events, relative to the working directory."),
    ] = ()
    sources: Annotated[Sources, Meta(description="What the broker itself goes and gets.")] = Sources()
    events: Annotated[Events, Meta(description="A line for each thing that happens to an event.")] = Events()
    metrics: Annotated[Metrics, Meta(description="What `/metrics` shows.")] = Metrics()
    log: Annotated[Log, Meta(description="What the broker says about itself.")] = Log()
