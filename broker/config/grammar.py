"""The small grammars of text values: hosts, origins, scopes, tokens.

Each one is a `Grammar` that a field of `schema.py` carries in its metadata, so that the check of a value
stands beside its type, and the reference page can name it. Reasons never repeat the value: some are secret.
"""

import ipaddress
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from broker.contracts.names import stream_name_problem, stream_pattern_problem, text_problem
from broker.limits import (
    CONFIG_MAP_KEY_BYTES_MAX,
    EVENT_TYPE_BYTES_MAX,
    HEADER_NAME_BYTES_MAX,
    HOST_NAME_BYTES_MAX,
    PATH_BYTES_MAX,
    PORT_MAX,
    PRINCIPAL_NAME_BYTES_MAX,
    SOURCE_SYSTEM_BYTES_MAX,
    TOKEN_BYTES_MAX,
    TRIGGER_ID_BYTES_MAX,
)

TOKEN_MASK = "***"  # noqa: S105 - it stands where a secret was

_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]+)")
_TOKEN = re.compile(r"[!-~]+")
_TOKEN_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_VIEW = re.compile(r"[A-Za-z0-9._-]+")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TAKEN_HEADERS = frozenset(
    {"authorization", "connection", "content-length", "content-type", "cookie", "host", "origin"}
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Grammar(NamedTuple):
    """What a text value must be: a noun for messages, and the check."""

    noun: str
    problem: Callable[[str], str | None]


def host_problem(host: str) -> str | None:
    """What is wrong with `host` as an address to listen on. Empty is refused: it would mean every interface."""
    if not host:
        return "it is empty"
    if host.startswith("["):
        return "an IPv6 address is written without brackets here"
    return None if _is_address(host) or _is_host_name(host) else "it is neither"


def is_loopback(host: str) -> bool:
    """Whether listening on `host` is certain to reach this machine only."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def authority_problem(authority: str) -> str | None:
    """What is wrong with `authority` as a Host header to compare with, which is in lower case here."""
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        return "write host or host:port, in lower case, without scheme, path or wildcard; IPv6 in brackets"
    host, port = parts["host"], parts["port"]
    if host.startswith("[") and not _is_address(host[1:-1]):
        return "the brackets do not hold an IPv6 address"
    return None if port is None or 1 <= int(port) <= PORT_MAX else f"the port is not between 1 and {PORT_MAX}"


def origin_problem(origin: str) -> str | None:
    """What is wrong with `origin` as an Origin header to compare with, exactly as a browser writes it."""
    parts = _ORIGIN.fullmatch(origin)
    if parts is None:
        return "write scheme://host or scheme://host:port, in lower case, without path or wildcard"
    port = _DEFAULT_PORTS.get(parts["scheme"])
    if port is not None and parts["authority"].endswith(f":{port}"):
        return f"browsers leave out :{port}, the default of {parts['scheme']}, so this would never match"
    return authority_problem(parts["authority"])


def scope_problem(scope: str) -> str | None:
    """What is wrong with `scope` as a permission. A lone `*` in place of a pattern means everything."""
    match scope.split(":"):
        case ["streams", pattern, "enqueue" | "subscribe"]:
            return stream_pattern_problem(pattern)
        case ["views", view, "read"]:
            return None if view == "*" or _VIEW.fullmatch(view) else "the view is neither * nor a name"
        case ["devices", pattern]:
            return stream_pattern_problem(pattern)
        case ["admin", "*"]:
            return None
    return (
        "write streams:<pattern>:enqueue, streams:<pattern>:subscribe, views:<name or *>:read, "
        "devices:<pattern> or admin:*"
    )


def token_problem(token: str) -> str | None:
    """What is wrong with `token` as a bearer token, without ever repeating it."""
    if token == TOKEN_MASK:
        return "it is the mask that `courier config show` prints in place of a token"
    if not _TOKEN.fullmatch(token):
        return "it is empty, or has characters other than visible ASCII, which a header cannot carry"
    return None if len(token) <= TOKEN_BYTES_MAX else f"it is longer than {TOKEN_BYTES_MAX} bytes"


def token_hash_problem(token_hash: str) -> str | None:
    """What is wrong with `token_hash` as the digest of a token."""
    return None if _TOKEN_HASH.fullmatch(token_hash) else "write sha256: and 64 hexadecimal digits in lower case"


def principal_problem(name: str) -> str | None:
    """What is wrong with `name` as a principal. With a `:`, two (scope, key) pairs could share a dedupe key."""
    if ":" in name:
        return "it has a colon"
    return text_problem(name, PRINCIPAL_NAME_BYTES_MAX)


def header_problem(name: str) -> str | None:
    """What is wrong with `name` as a header that carries a token."""
    if not _HEADER.fullmatch(name):
        return "it is empty, or has characters that the name of a header cannot have"
    if name.lower() in _TAKEN_HEADERS:
        return "it has a meaning of its own"
    return text_problem(name, HEADER_NAME_BYTES_MAX)


def directory_problem(directory: str) -> str | None:
    """What is wrong with `directory` as a path that the system can open."""
    if directory.startswith("~"):
        return "~ is not expanded here; write the whole path"
    return text_problem(directory, PATH_BYTES_MAX)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return _TOKEN.fullmatch(text) is not None  # the zone after a % could hold anything


def _is_host_name(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    return len(text) <= HOST_NAME_BYTES_MAX and all(_LABEL.fullmatch(label) for label in labels)


HOST = Grammar("an IP address or a host name", host_problem)
ALLOWED_HOST = Grammar("a host or host:port", authority_problem)
ORIGIN = Grammar("an origin", origin_problem)
SCOPE = Grammar("a scope", scope_problem)
TOKEN = Grammar("a bearer token", token_problem)
TOKEN_HASH = Grammar("the SHA-256 of a token", token_hash_problem)
PRINCIPAL = Grammar("the name of a principal", principal_problem)
HEADER = Grammar("the name of a header", header_problem)
DIRECTORY = Grammar("the path of a directory", directory_problem)
STREAM = Grammar("the name of a stream", stream_name_problem)
PATTERN = Grammar("a stream pattern", stream_pattern_problem)
TRIGGER_ID = Grammar("an id", partial(text_problem, bytes_max=TRIGGER_ID_BYTES_MAX))
SOURCE = Grammar("the name of a sender", partial(text_problem, bytes_max=SOURCE_SYSTEM_BYTES_MAX))
EVENT_TYPE = Grammar("an event type", partial(text_problem, bytes_max=EVENT_TYPE_BYTES_MAX))
TAG = Grammar("a tag", partial(text_problem, bytes_max=CONFIG_MAP_KEY_BYTES_MAX))
MAP_KEY = Grammar("a key", partial(text_problem, bytes_max=CONFIG_MAP_KEY_BYTES_MAX))
