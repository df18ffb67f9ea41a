"""What is plain in the head of an HTTP request is read in one walk; the rest is left to the server."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import _fast
from tests.fast import head_model as model

LINE = b"POST /v1/enqueue HTTP/1.1\r\n"
KEY = b"X-Api-Key"
BODY = b'{"to":"s"}'
HEAD = b"Host: localhost:8787\r\nContent-Type: application/json\r\nContent-Length: 10\r\n"
PLAIN = LINE + HEAD + b"\r\n" + BODY


def with_header(header: bytes) -> bytes:
    return LINE + HEAD + header + b"\r\n\r\n" + BODY


def test_a_plain_request_is_its_body_its_host_and_its_credentials(plain_request: Any) -> None:
    assert plain_request(PLAIN, LINE, KEY, 10) == (BODY, "localhost:8787", None, None)
    both = with_header(b"AUTHORIZATION:  Bearer a b  \r\nx-aPi-kEy:k")
    assert plain_request(both, LINE, KEY, 10) == (BODY, "localhost:8787", "Bearer a b", "k")
    assert plain_request(with_header(b"Authorization:\r\nX-Api-Key: "), LINE, KEY, 10)[2:] == ("", "")
    assert plain_request(with_header(b"X-Api-Key: k"), LINE, b"", 10)[3] is None
    assert plain_request(PLAIN, LINE, b"Host", 10)[3] == "localhost:8787"


@pytest.mark.parametrize(
    "header",
    [
        b"Connection: keep-alive", b"connection: Keep-Alive", b"User-Agent: curl/8.1 (x; y)", b"Accept: */*",
        b"Accept-Encoding: gzip, deflate, br", b"X-Empty:", b"X!#$%&'*+-.^_`|~09: \"\\", b"Te: trailers",
        b"Cookie: a=b; c=d",
    ],
)  # fmt: skip
def test_headers_that_change_nothing_are_passed_over(plain_request: Any, bytes_owed: Any, header: bytes) -> None:
    assert plain_request(with_header(header), LINE, KEY, 10) == (BODY, "localhost:8787", None, None)
    assert bytes_owed(with_header(header), 0) == 0


ONLY_ENQUEUE = [
    b"Content-Encoding: gzip", b"Content-Encoding: identity", b"Expect: 100-continue", b"Origin: http://localhost",
]  # fmt: skip
"""What a plain request may not say, though its frame is plain."""

NOT_PLAIN = [
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"transfer-encoding:", b"Trailer: X",
    b"Connection: close", b"Connection: keep-alive, Upgrade", b"Connection:", b"Upgrade: websocket", b"Upgrade: h2c",
    b"Proxy-Connection: close", b"Sec-WebSocket-Key: a", b"Sec-WebSocket-Key1: a",
    b"Content-Length: 10", b"content-length: 10", b"Host: other", b"HOST: localhost", b"A: 1\r\na: 2",
    b"Content-Type: application/json",
    b"A : 1", b" A: 1", b"A: 1\r\n folded", b"A: 1\r\n\tfolded", b"A: \t1", b"A: 1\t", b": 1", b"A", b"A\xe9: 1",
    b"A: \xe9",
    b"A: 1\nB: 2", b"A: 1\rB: 2", b"A: \x00", b"A: \x7f", b"A\x00: 1", b"(A): 1", b"A: 1\r\r", b"\n",
]  # fmt: skip


@pytest.mark.parametrize("header", ONLY_ENQUEUE + NOT_PLAIN)
def test_what_another_reader_could_take_otherwise_is_not_plain(plain_request: Any, header: bytes) -> None:
    assert plain_request(with_header(header), LINE, KEY, 10) is None


@pytest.mark.parametrize("header", NOT_PLAIN)
def test_where_a_frame_is_not_plain_nobody_knows_how_much_is_to_come(bytes_owed: Any, header: bytes) -> None:
    assert bytes_owed(with_header(header), 0) == -1


@pytest.mark.parametrize("header", ONLY_ENQUEUE)
def test_other_requests_may_have_a_plain_frame(bytes_owed: Any, header: bytes) -> None:
    assert bytes_owed(with_header(header), 0) == 0


@pytest.mark.parametrize(
    "length",
    [b"", b"+10", b"-10", b"10 0", b"010", b"1e1", b"0xa", b"10,10", b"9", b"11", b"10.0", b"12345678901", b"9" * 40],
)
def test_a_length_is_digits_and_true(plain_request: Any, length: bytes) -> None:
    assert plain_request(PLAIN.replace(b": 10\r", b": %b\r" % length), LINE, KEY, 1 << 30) is None


@pytest.mark.parametrize(
    ("kind", "is_plain"),
    [
        (b"application/json", True), (b"Application/JSON", True), (b"application/json; charset=utf-8", True),
        (b"application/json;charset=UTF-8", True), (b"application/json; charset=latin-1", False),
        (b"application/json;  charset=utf-8", False), (b"application/json;", False), (b"application/x-ndjson", False),
        (b"text/plain", False), (b"", False), (b"application/json, text/plain", False),
    ],
)  # fmt: skip
def test_json_is_taken_as_it_is_usually_declared(plain_request: Any, kind: bytes, is_plain: bool) -> None:
    found = plain_request(PLAIN.replace(b"application/json", kind), LINE, KEY, 10)
    assert (found is not None) is is_plain


@pytest.mark.parametrize("name", [b"Host", b"Content-Type", b"Content-Length"])
def test_nothing_that_matters_may_be_missing(plain_request: Any, name: bytes) -> None:
    assert plain_request(PLAIN.replace(name, b"X-Other"), LINE, KEY, 10) is None


@pytest.mark.parametrize(
    "line",
    [
        b"GET /v1/enqueue HTTP/1.1\r\n", b"POST /v1/enqueue HTTP/1.0\r\n", b"POST /v1/enqueue?a=b HTTP/1.1\r\n",
        b"POST /v1/enqueue/ HTTP/1.1\r\n", b"post /v1/enqueue HTTP/1.1\r\n", b"POST  /v1/enqueue HTTP/1.1\r\n",
        b"POST /v1/enqueue HTTP/1.1\n", b"POST http://localhost/v1/enqueue HTTP/1.1\r\n", b"\r\n" + LINE,
    ],
)  # fmt: skip
def test_another_first_line_is_another_request(plain_request: Any, line: bytes) -> None:
    assert plain_request(PLAIN.replace(LINE, line), LINE, KEY, 10) is None


def test_a_request_that_is_not_whole_or_not_alone_is_not_plain(plain_request: Any) -> None:
    assert all(plain_request(PLAIN[:end], LINE, KEY, 10) is None for end in range(len(PLAIN)))
    assert plain_request(PLAIN + b"P", LINE, KEY, 10) is None
    assert plain_request(PLAIN + PLAIN, LINE, KEY, 10) is None
    assert plain_request(PLAIN, LINE, KEY, 9) is None


def test_a_head_has_bounds(plain_request: Any, bytes_owed: Any) -> None:
    spare = 4096 - len(PLAIN) + len(BODY) - len(b"A: \r\n")
    for more, is_plain in ((0, True), (1, False)):
        request = with_header(b"A: " + b"a" * (spare + more))
        assert (plain_request(request, LINE, KEY, 10) is not None) is is_plain
        assert bytes_owed(request, 0) == (0 if is_plain else -1)
    for count, is_plain in ((29, True), (30, False)):
        request = with_header(b"\r\n".join(b"a%d: 1" % number for number in range(count)))
        assert (plain_request(request, LINE, KEY, 10) is not None) is is_plain
        assert bytes_owed(request, 0) == (0 if is_plain else -1)


def test_what_is_owed_is_what_the_frame_says_less_what_came(bytes_owed: Any) -> None:
    head = len(PLAIN) - len(BODY)
    for end in range(1, len(PLAIN) + 1):
        assert bytes_owed(PLAIN[:end], 0) == (-1 if end < head else len(PLAIN) - end)
    assert bytes_owed(PLAIN * 3 + PLAIN[:-3], 0) == 3
    assert bytes_owed(b"abc", 3) == 0
    assert bytes_owed(b"ab", 3) == 1
    assert bytes_owed(b"abc" + PLAIN, 3) == 0
    assert bytes_owed(b"abcx" + PLAIN, 3) == -1
    assert bytes_owed(b"", 0) == 0
    assert bytes_owed(b"", 7) == 7
    assert bytes_owed(PLAIN, -1) == -1


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"POST", b"DELETE"])
def test_a_request_of_any_usual_method_has_a_frame(bytes_owed: Any, method: bytes) -> None:
    assert bytes_owed(method + b" /a?b=c%20 HTTP/1.1\r\nHost:\r\n\r\n", 0) == 0


@pytest.mark.parametrize(
    "line",
    [
        b"CONNECT a:1 HTTP/1.1", b"HEAD / HTTP/1.1", b"OPTIONS * HTTP/1.1", b"PRI * HTTP/2.0", b"GET / HTTP/1.0",
        b"GET /",
        b"GET / HTTP/1.1 ", b"GET /a b HTTP/1.1", b"GET http://a/ HTTP/1.1", b"GET /\xe9 HTTP/1.1",
        b"\r\nGET / HTTP/1.1",
    ],
)  # fmt: skip
def test_any_other_request_has_none_that_is_plain(bytes_owed: Any, line: bytes) -> None:
    assert bytes_owed(line + b"\r\nHost: a\r\n\r\n", 0) == -1


PIECES = st.sampled_from(
    [
        b"\r\n", b"\r", b"\n", b"\r\n\r\n", b" ", b"\t", b":", b"\0", b"\x7f", b"\xe9", b"0", b"1", b"Host: a\r\n",
        b"A: b\r\n",
        b"Content-Length: 10\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: keep-alive\r\n",
        b"Authorization: a\r\n",
        b"X-Api-Key:  k \r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"GET / HTTP/1.1\r\n",
        b"; charset=utf-8", BODY,
    ]
)  # fmt: skip
CHANGES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 30), PIECES | st.just(b"")), max_size=4)


def changed(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for somewhere, length, piece in changes:
        place = somewhere % (len(data) + 1)
        data = data[:place] + piece + data[place + length :]
    return data


@given(st.sampled_from([PLAIN, with_header(b"Authorization: Bearer t\r\nAccept: */*")]), CHANGES, st.integers(0, 20))
def test_whatever_is_changed_in_a_request_it_is_read_as_the_model_reads_it(
    request: bytes, changes: list[tuple[int, int, bytes]], bound: int
) -> None:
    data = changed(request, changes)
    assert _fast.plain_request(data, LINE, KEY, bound) == model.plain_request(data, LINE, KEY, bound)


@given(
    st.lists(st.sampled_from([PLAIN, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"]), max_size=3).map(b"".join),
    CHANGES,
    st.integers(-1, 200),
    st.integers(0, 300),
)
def test_whatever_comes_the_model_owes_as_much(
    data: bytes, changes: list[tuple[int, int, bytes]], owed: int, cut: int
) -> None:
    data = changed(data, changes)
    assert _fast.bytes_owed(data, owed) == model.bytes_owed(data, owed)
    together = _fast.bytes_owed(data, 0)
    apart = _fast.bytes_owed(data[cut:], _fast.bytes_owed(data[:cut], 0))
    assert apart in (together, -1)  # a head in two pieces is not plain


@given(st.binary(max_size=200))
@example(b"")
@example(LINE)
def test_any_bytes_have_the_answer_of_the_model(data: bytes) -> None:
    for each in (data, LINE + data, LINE + HEAD + data):
        assert _fast.plain_request(each, LINE, KEY, 10) == model.plain_request(each, LINE, KEY, 10)
        assert _fast.bytes_owed(each, 0) == model.bytes_owed(each, 0)


@pytest.mark.parametrize("wrong", ["POST", None, bytearray(PLAIN), memoryview(PLAIN)])
def test_only_bytes_are_read(wrong: Any) -> None:
    with pytest.raises(TypeError):
        _fast.plain_request(wrong, LINE, KEY, 10)
    with pytest.raises(TypeError):
        _fast.bytes_owed(wrong, 0)
