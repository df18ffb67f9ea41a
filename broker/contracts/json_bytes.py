"""What must hold of JSON bytes besides their grammar: valid UTF-8, and not too deep."""

import re

from broker.errors import InvalidRequest
from broker.limits import JSON_DEPTH_MAX

# A string that does not end is taken to the end of the bytes, and nothing is ever tried again (the `+` behind
# a quantifier): else a body of escaped quotes, of the allowed size, would keep the loop busy for hours.
_BRACKETS_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


def check_utf8(data: bytes) -> None:
    """Raise InvalidRequest for bytes that are not UTF-8 (the decoder does not look into what it skips)."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not valid UTF-8 at byte {error.start}; send JSON as UTF-8") from None


def check_depth(data: bytes, levels_around: int = 0) -> None:
    """Raise InvalidRequest for JSON that is nested deeper than the bound, with so many levels around it.

    Few documents have as many brackets as the bound allows levels: those are done after two counts.
    """
    depth_max = JSON_DEPTH_MAX - levels_around
    if data.count(b"{") + data.count(b"[") <= depth_max:
        return
    depth = 0
    for match in _BRACKETS_OUTSIDE_STRINGS.finditer(data):
        if match[1]:
            depth += 1
            if depth > depth_max:
                raise InvalidRequest(
                    f"the JSON is nested deeper than {depth_max} levels at byte {match.start()}; flatten it"
                )
        elif match[2]:
            depth -= 1
