"""The heads of HTTP requests in plain Python; `models.py` says what a model is."""

import re

HEAD_BYTES_MAX = 4096
HEADERS_MAX = 32

_FIRST_LINE = re.compile(rb"(?:GET|PUT|POST|DELETE) /[!-~]* HTTP/1\.1")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([ -~]*)")
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,9}")
_JSON = re.compile(rb"application/json(?:; ?charset=utf-8)?", re.IGNORECASE)
_SWITCHES = (b"transfer-encoding", b"upgrade", b"trailer")

Headers = dict[bytes, bytes]


def _head(data: bytes) -> tuple[bytes, Headers, int] | None:
    """The first line, the headers, and where the body begins."""
    size = data.find(b"\r\n\r\n") + 4
    if size < 4 or size > HEAD_BYTES_MAX:
        return None
    first, *lines = data[: size - 4].split(b"\r\n")
    headers: Headers = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None or header[1].lower() in headers:
            return None
        headers[header[1].lower()] = header[2].strip(b" ")
    if len(headers) > HEADERS_MAX or not _LENGTH.fullmatch(headers.get(b"content-length", b"0")):
        return None
    return first, headers, size


def _may_not_go_on(headers: Headers) -> bool:
    return any(
        name in _SWITCHES
        or name.startswith(b"sec-websocket")
        or (name in (b"connection", b"proxy-connection") and value.lower() != b"keep-alive")
        for name, value in headers.items()
    )


def _request_bytes(data: bytes) -> int:
    head = _head(data)
    if head is None or not _FIRST_LINE.fullmatch(head[0]) or b"host" not in head[1] or _may_not_go_on(head[1]):
        return -1
    return head[2] + int(head[1].get(b"content-length", b"0"))


def bytes_owed(data: bytes, owed: int) -> int:
    if owed < 0:
        return -1
    if len(data) <= owed:
        return owed - len(data)
    rest = data[owed:]
    return bytes_owed(rest, _request_bytes(rest))


def plain_request(
    data: bytes, line: bytes, key: bytes, body_bytes_max: int
) -> tuple[bytes, str, str | None, str | None] | None:
    head = _head(data)
    if head is None or not data.startswith(line) or head[0] + b"\r\n" != line:
        return None
    _, headers, size = head
    if not {b"host", b"content-length", b"content-type"} <= headers.keys() or _may_not_go_on(headers):
        return None
    if headers.keys() & {b"content-encoding", b"expect", b"origin"} or not _JSON.fullmatch(headers[b"content-type"]):
        return None
    length = int(headers[b"content-length"])
    if length > body_bytes_max or size + length != len(data):
        return None

    def text(name: bytes) -> str | None:
        return headers[name].decode() if name in headers else None

    return data[size:], headers[b"host"].decode(), text(b"authorization"), text(key.lower())
