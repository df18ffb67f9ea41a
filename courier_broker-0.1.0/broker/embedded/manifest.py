"""What a stream kernel is told about Courier: what it is, and how to start it."""

import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

NAME: Final = "courier"
CLASS_HEX: Final = "0xC0DE"
"""The class of service under which a Hostess lists it, unless told otherwise."""


def capabilities() -> dict[str, Any]:
    """What a kernel may connect it to (003 §13)."""
    return {"type": "transform", "accepts": ["envelope"], "produces": ["envelope", "view"]}


def links(url: str | None) -> dict[str, str]:
    """Where the figures and the health of a broker with an HTTP endpoint are found; nothing for one without."""
    if url is None:
        return {}
    return {"httpUrl": url, "statsUrl": f"{url}/v1/streams", "healthUrl": f"{url}/readyz"}


def registration(
    *,
    servername: str = NAME,
    fqdn: str | None = None,
    class_hex: str = CLASS_HEX,
    owner: str = NAME,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a Hostess is given to register: who this is, and what it takes and gives."""
    return {
        "fqdn": fqdn or socket.gethostname(),
        "servername": servername,
        "classHex": class_hex,
        "owner": owner,
        "auth": "no",
        "authMechanism": "none",
        "terminals": [
            {"name": "input", "type": "local", "direction": "input"},
            {"name": "output", "type": "local", "direction": "output"},
        ],
        "capabilities": capabilities(),
        "metadata": dict(metadata or {}),
    }


def manifest(arguments: Sequence[str], *, cwd: Path, url: str | None, **identity: Any) -> dict[str, Any]:
    """A registration with the command that starts the service: `courier pipe --stdio` with these arguments."""
    whole = registration(metadata={"protocol": "ndjson", **links(url)}, **identity) | {
        "command": sys.executable,
        "args": ["-m", "broker", "pipe", "--stdio", *arguments],
        "env": {},
        "cwd": str(cwd),
        "ioMode": "stdio",
    }
    if url is not None:
        whole["healthCheck"] = {"type": "http", "url": f"{url}/readyz"}
    return whole
