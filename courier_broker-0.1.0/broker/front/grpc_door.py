"""The way to gRPC, which is loaded only where the configuration asks for it.

A broker without it does not pay for its import, and runs where its wheels are not to be had.
"""

from typing import TYPE_CHECKING

from broker.admission.auth import Authenticator
from broker.config import Config
from broker.errors import ConfigError
from broker.front.ingress import SkyraIntake

if TYPE_CHECKING:
    from broker.front.grpc_server import GrpcServer

INSTALL = "pip install 'courier-broker[grpc]'"


def grpc_server(config: Config, intake: SkyraIntake, authenticator: Authenticator) -> "GrpcServer | None":
    """The server that the configuration asks for; raise ConfigError when it cannot be had here."""
    if config.grpc.port is None:
        return None
    try:
        from broker.front.grpc_ingress import GrpcIngress  # noqa: PLC0415 - what this module is for
        from broker.front.grpc_server import GrpcServer  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError([_what_to_do(error)]) from None
    return GrpcServer(config.grpc, config.server, GrpcIngress(intake, authenticator))


def _what_to_do(error: ImportError) -> str:
    if "skyra_pb2" in f"{error.name} {error}":
        return (
            "grpc.port: this Courier was built without the stubs of gRPC; "
            "install grpcio-tools, then build and install Courier again"
        )
    return f"grpc.port: gRPC is not installed here ({error}); {INSTALL}, or leave grpc.port out"
