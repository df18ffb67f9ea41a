"""The small grammars of text values: hosts, origins, scopes, tokens.

Each one is a `Grammar` that a field of `schema.py` carries in its metadata, so that the check of a value
stands beside its type, and the reference page can name it. Reasons never repeat the value: some are secret.
"""

import ipaddress
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from broker.config.references import reference_problem
from broker.contracts.json_pointer import pointer_problem
from broker.contracts.names import stream_name_problem, stream_pattern_problem, text_problem
from broker.contracts.templates import template_problem
from broker.contracts.types import type_pattern_problem
from broker.limits import (
    CONFIG_MAP_KEY_BYTES_MAX,
    EVENT_TYPE_BYTES_MAX,
    HEADER_NAME_BYTES_MAX,
    HOST_NAME_BYTES_MAX,
    PATH_BYTES_MAX,
    PORT_MAX,
    PRINCIPAL_NAME_BYTES_MAX,
    SOURCE_CURSOR_BYTES_MAX,
    SOURCE_HEADER_BYTES_MAX,
    SOURCE_MESSAGE_BYTES_MAX,
    SOURCE_NAME_BYTES_MAX,
    SOURCE_SYSTEM_BYTES_MAX,
    SOURCE_URL_BYTES_MAX,
    TOKEN_BYTES_MAX,
    TRIGGER_COOLDOWN_KEY_BYTES_MAX,
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
_HEADERS_OF_THE_LIBRARY = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "if-none-match", "transfer-encoding", "upgrade"}
)
_SOURCE = re.compile(r"[A-Za-z0-9._-]+")
_URL = re.compile(r"[!-~]+")
_HEADER_TEXT = re.compile(r"[\t -~]+")
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
        case ["metrics", "read"] | ["admin", "*"]:
            return None
    return (
        "write streams:<pattern>:enqueue, streams:<pattern>:subscribe, views:<name or *>:read, "
        "devices:<pattern>, metrics:read or admin:*"
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


def sent_header_problem(name: str) -> str | None:
    """What is wrong with `name` as a header that a source sends to its server."""
    if not _HEADER.fullmatch(name):
        return "it is empty, or has characters that the name of a header cannot have"
    if name.lower() in _HEADERS_OF_THE_LIBRARY or name.lower().startswith("sec-websocket-"):
        return "the broker sets it itself"
    return text_problem(name, HEADER_NAME_BYTES_MAX)


def secret_text_problem(text: str) -> str | None:
    """What is wrong with `text` as the value of a header, without ever repeating it."""
    if text == TOKEN_MASK:
        return "it is the mask that `courier config show` prints in place of a secret"
    if not _HEADER_TEXT.fullmatch(text):
        return "it is empty, or has characters other than ASCII on one line, which a header cannot carry"
    if len(text) > SOURCE_HEADER_BYTES_MAX:
        return f"it is longer than {SOURCE_HEADER_BYTES_MAX} bytes"
    return reference_problem(text)


def source_name_problem(name: str) -> str | None:
    """What is wrong with `name` as that of a source that is pulled from."""
    if not _SOURCE.fullmatch(name):
        return "it is empty, or has a character outside A-Z a-z 0-9 . _ -"
    return text_problem(name, SOURCE_NAME_BYTES_MAX)


def url_problem(url: str, schemes: tuple[str, ...]) -> str | None:
    """What is wrong with `url` as one to pull from, without ever repeating it."""
    if not _URL.fullmatch(url) or len(url) > SOURCE_URL_BYTES_MAX:
        return f"it is empty, longer than {SOURCE_URL_BYTES_MAX} bytes, or has characters other than visible ASCII"
    try:
        parts = urlsplit(url)
        fits = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "its host or port cannot be read"
    if not fits:
        return f"write {' or '.join(f'{scheme}://' for scheme in schemes)} with a host, and perhaps a port and a path"
    if "@" in parts.netloc:
        return "it has a name or a password; give them in headers, as a reference"
    if "#" in url:
        return "it has a fragment, which no server sees"
    return "{cursor} stands in the host; it may only be in the path or the query" if "{" in parts.netloc else None


def directory_problem(directory: str) -> str | None:
    """What is wrong with `directory` as a path that the system can open."""
    if directory.startswith("~"):
        return "~ is not expanded here; write the whole path"
    return text_problem(directory, PATH_BYTES_MAX)


def template_text_problem(text: str, bytes_max: int) -> str | None:
    """What is wrong with `text` as a text in which fields of an envelope are put."""
    return text_problem(text, bytes_max) or template_problem(text)


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
FILE = Grammar("the path of a file", directory_problem)
SENT_HEADER = Grammar("the name of a header to send", sent_header_problem)
SECRET_TEXT = Grammar("the value of a header", secret_text_problem)
SOURCE_NAME = Grammar("the name of a source", source_name_problem)
HTTP_URL = Grammar("an http or https URL", partial(url_problem, schemes=("http", "https")))
SOCKET_URL = Grammar("a ws or wss URL", partial(url_problem, schemes=("ws", "wss")))
POINTER = Grammar("a JSON pointer", pointer_problem)
CURSOR = Grammar("a cursor", lambda text: None if not text else text_problem(text, SOURCE_CURSOR_BYTES_MAX))
MESSAGE = Grammar("a message", partial(text_problem, bytes_max=SOURCE_MESSAGE_BYTES_MAX))
STREAM = Grammar("the name of a stream", stream_name_problem)
PATTERN = Grammar("a stream pattern", stream_pattern_problem)
TRIGGER_ID = Grammar("an id", partial(text_problem, bytes_max=TRIGGER_ID_BYTES_MAX))
SOURCE = Grammar("the name of a sender", partial(text_problem, bytes_max=SOURCE_SYSTEM_BYTES_MAX))
EVENT_TYPE = Grammar("an event type", partial(text_problem, bytes_max=EVENT_TYPE_BYTES_MAX))
TYPE_PATTERN = Grammar("a pattern of event types", type_pattern_problem)
TYPE_TEMPLATE = Grammar("an event type", partial(template_text_problem, bytes_max=EVENT_TYPE_BYTES_MAX))
TAG_TEMPLATE = Grammar("a tag", partial(template_text_problem, bytes_max=CONFIG_MAP_KEY_BYTES_MAX))
TEMPLATE = Grammar("text", template_problem)
COOLDOWN_KEY = Grammar("a text", partial(template_text_problem, bytes_max=TRIGGER_COOLDOWN_KEY_BYTES_MAX))
TAG = Grammar("a tag", partial(text_problem, bytes_max=CONFIG_MAP_KEY_BYTES_MAX))
MAP_KEY = Grammar("a key", partial(text_problem, bytes_max=CONFIG_MAP_KEY_BYTES_MAX))
