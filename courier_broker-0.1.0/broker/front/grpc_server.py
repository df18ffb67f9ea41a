"""The listening socket of gRPC, and its orderly end."""

import grpc

from broker.config import Grpc, Server
from broker.errors import ConfigError
from broker.front.grpc_ingress import GrpcIngress
from broker.front.sockets import HEARTBEAT_SECONDS
from broker.limits import FRAME_BYTES_MAX, GRPC_METADATA_BYTES_MAX

PING_TIMEOUT_SECONDS = 10.0
"""How long a peer may take to answer a ping before its connection is closed."""

CLIENT_PING_SECONDS = 10.0
"""How often a client may ping; one that does so much more often is sent away, by gRPC's own rule."""

IDLE_SECONDS = 300.0
"""How long a connection may be without a call."""

IDENTITY_ONLY = 1
"""The set of compression algorithms: none. A small message could unpack to any size."""


def _options(config: Grpc, server: Server) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # else a second broker could listen beside this one, and take half of the calls
        ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
        ("grpc.max_metadata_size", GRPC_METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", GRPC_METADATA_BYTES_MAX),
        ("grpc.compression_enabled_algorithms_bitset", IDENTITY_ONLY),
        ("grpc.max_allowed_incoming_connections", config.max_connections),
        ("grpc.max_concurrent_streams", config.max_calls),
        ("grpc.server_handshake_timeout_ms", server.read_timeout_ms),
        ("grpc.keepalive_time_ms", int(HEARTBEAT_SECONDS * 1000)),
        ("grpc.keepalive_timeout_ms", int(PING_TIMEOUT_SECONDS * 1000)),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", int(CLIENT_PING_SECONDS * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_connection_idle_ms", int(IDLE_SECONDS * 1000)),
    ]


class GrpcServer:
    """A gRPC server on one address, with the one service."""

    def __init__(self, config: Grpc, server: Server, ingress: GrpcIngress) -> None:
        self.ingress = ingress
        self._config = config
        self._drain_seconds = server.drain_ms / 1000
        self._host = f"[{config.host}]" if ":" in config.host else config.host
        self.port = 0
        self._server: grpc.aio.Server | None = grpc.aio.server(
            options=_options(config, server), maximum_concurrent_rpcs=config.max_calls
        )
        self._server.add_generic_rpc_handlers((ingress.handler(),))

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{self._host}:{self.port}"

    async def start(self) -> None:
        """Listen; raise ConfigError when the address cannot be had."""
        assert self._server is not None
        try:
            self.port = self._server.add_insecure_port(f"{self._host}:{self._config.port}")
        except RuntimeError:
            self._server = None
            raise ConfigError(
                [f"grpc: cannot listen on {self._host}:{self._config.port}; is another broker there?"]
            ) from None
        await self._server.start()

    async def close(self) -> None:
        """Answer what was received, end every call, and let go of the threads of gRPC."""
        await self.ingress.close()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(self._drain_seconds)
