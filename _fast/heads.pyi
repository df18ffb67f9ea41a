def plain_request(
    data: bytes, line: bytes, key: bytes, body_bytes_max: int
) -> tuple[bytes, str, str | None, str | None] | None:
    """The body of a request, the host as it is written, and what `Authorization` and the header `key` say.

    `data` must be one whole request and nothing behind it, whose first line is `line` with its CR LF, and whose body is
    JSON of at most so many bytes. None says nothing but that the HTTP server must be asked: something is not plain, or
    is more than this reader knows of.
    """

def bytes_owed(data: bytes, owed: int) -> int:
    """How many bytes are still to come of the last request in `data`, whose first `owed` bytes end an earlier one.

    0 says that the next byte begins a request. -1 says that this is not plain to see, as for a request in chunks, one
    with a head that is not whole, or one after which the connection may not go on with HTTP; and that stays so.
    """
