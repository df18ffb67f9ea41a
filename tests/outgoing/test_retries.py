"""When a call is tried again: as asked, else later each time, and not for ever."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from broker.limits import OUTGOING_BACKOFF_SECONDS_MAX, OUTGOING_RETRY_AFTER_SECONDS_MAX
from broker.outgoing.calls import message_of, plain
from broker.outgoing.retries import RETRIED, Retries, seconds_of

NOW = datetime(2026, 11, 18, 20, 0, tzinfo=UTC)


@pytest.mark.parametrize("tries", [1, 2, 3, 4])
def test_it_waits_twice_as_long_each_time_and_up_to_half_of_it_less(tries: int) -> None:
    longest = 0.5 * 2 ** (tries - 1)
    for _ in range(100):
        delay = Retries(10, 0.5).delay(tries)
        assert delay is not None
        assert longest / 2 <= delay <= longest


def test_it_never_waits_longer_than_the_bound() -> None:
    delay = Retries(2000, 0.5).delay(1500)
    assert delay is not None
    assert OUTGOING_BACKOFF_SECONDS_MAX / 2 <= delay <= OUTGOING_BACKOFF_SECONDS_MAX


def test_after_the_last_retry_there_is_no_other() -> None:
    assert Retries(2).delay(2) is not None
    assert Retries(2).delay(3) is None
    assert Retries(2).delay(3, "0") is None
    assert Retries(0).delay(1) is None


def test_what_the_server_asks_for_is_kept_to_within_a_bound() -> None:
    assert Retries().delay(1, "7") == 7.0
    assert Retries().delay(1, "0") == 0.0
    assert Retries().delay(1, "86400") == OUTGOING_RETRY_AFTER_SECONDS_MAX


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("12", 12.0),
        (" 12 ", 12.0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0.0),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("", None),
        ("9" * 40, 999_999_999.0),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header, NOW) == seconds


def test_what_may_pass_is_retried_and_a_refusal_is_not() -> None:
    assert {408, 429, 500, 503, 599} <= RETRIED
    assert not {200, 301, 400, 401, 403, 404, 409, 413} & RETRIED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"error": {"message": "no", "code": 1}}', "no"),
        ('{"error": "no"}', "no"),
        ('{"message": "no"}', "no"),
        ('"no"', "no"),
        ("<html>no</html>", "<html>no</html>"),
        ('{"detail": 5}', '{"detail": 5}'),
        ("", ""),
        ("[" * 5000, "[" * 5000),
    ],
)
def test_the_message_of_an_error_is_found_where_others_put_it(text: str, message: str) -> None:
    assert message_of(text) == message


def test_a_text_of_somebody_else_becomes_one_short_line() -> None:
    assert plain("a\nb\x1b[31mc\r\n") == "a b [31mc"
    assert len(plain("x" * 1000)) == 301
