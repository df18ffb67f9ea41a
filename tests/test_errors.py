"""The tree of refusals: what its docstring prints is what the classes say."""

import re

import broker.errors
from broker.errors import CourierError, OverQuota, TooLarge


def classes(kind: type[CourierError] = CourierError) -> list[type[CourierError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in classes(child))]


def test_the_printed_tree_is_the_tree_of_the_classes() -> None:
    row = re.compile(r"^[ │├└─]*(\w+) +(\w+) +(\d+) +(yes|no) +(\d+)$", re.MULTILINE)
    printed = {
        name: (code, int(status), retry == "yes", int(close))
        for name, code, status, retry, close in row.findall(broker.errors.__doc__ or "")
    }
    real = {
        kind.__name__: (kind.code, kind.status, kind.retryable, kind.close_code)
        for kind in classes()
        if kind.__name__ not in ("CourierError", "ConfigError")
    }
    assert printed == real


def test_every_code_belongs_to_one_refusal() -> None:
    codes = [kind.code for kind in classes()]
    assert len(set(codes)) == len(codes)


def test_a_refusal_that_cannot_be_retried_says_so_in_every_field() -> None:
    assert TooLarge("too much", limit=5).as_dict() == {
        "code": "too_large", "message": "too much", "retryable": False, "retry_after_seconds": 0, "limit": 5,
    }  # fmt: skip


def test_a_refusal_that_can_be_retried_says_when() -> None:
    assert OverQuota("slow down").as_dict()["retry_after_seconds"] == 1
    assert OverQuota("slow down", retry_after_seconds=7).as_dict()["retry_after_seconds"] == 7


def test_only_a_refusal_with_a_status_from_500_on_leaves_a_client_in_doubt() -> None:
    assert {kind.code for kind in classes() if kind.status >= 500 and not kind.retryable} <= {
        "internal",
        "config_invalid",
    }
