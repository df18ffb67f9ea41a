"""The shape of what the configuration says of contracts besides Courier's own."""

from typing import Annotated, Literal

from msgspec import Meta

from broker import limits
from broker.config import grammar
from broker.config.parts import Directory, Port, Section, StreamName


class Pixel(Section, frozen=True, kw_only=True):
    """How the events of game-server plugins are taken."""

    api_key_header: Annotated[
        str,
        Meta(extra={"grammar": grammar.HEADER}, description="The header in which a token may come, besides a bearer."),
    ] = "X-Pixel-Control-Api-Key"
    schemas: Annotated[
        Directory | None,
        Meta(
            description="A directory with schemas of more versions, and of payloads; relative to the working directory."
        ),
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


class Grpc(Section, frozen=True, kw_only=True):
    """Where the events of devices are taken over gRPC."""

    host: Annotated[
        str,
        Meta(
            extra={"grammar": grammar.HOST},
            description="The address to listen on. Without `auth.tokens`, loopback only.",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        Port | None,
        Meta(description="The TCP port to listen on; 0: any free one, null: no gRPC. Needs `courier-broker[grpc]`."),
    ] = None
    max_connections: Annotated[
        int,
        Meta(
            ge=1, le=limits.CONNECTIONS_MAX, description="How many connections may be open at once; one more is closed."
        ),
    ] = limits.GRPC_CONNECTIONS_DEFAULT
    max_calls: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.GRPC_CALLS_MAX,
            description="How many calls may be under way at once, streams included; past it, `RESOURCE_EXHAUSTED`.",
        ),
    ] = limits.GRPC_CALLS_DEFAULT
