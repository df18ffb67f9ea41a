"""The walk over the brackets of JSON in plain Python; `models.py` says what a model is."""

import re

# A string that does not end is taken to the end of the bytes, and nothing is ever tried again (the `+` behind
# a quantifier): else a body of escaped quotes, of the allowed size, would be looked at for hours.
_BRACKETS_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


def deeper_than(data: bytes, levels: int) -> int:
    depth = 0
    for match in _BRACKETS_OUTSIDE_STRINGS.finditer(data):
        if match[1]:
            depth += 1
            if depth > levels:
                return match.start()
        elif match[2]:
            depth -= 1
    return -1
