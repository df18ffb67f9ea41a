"""Token buckets, per token and per stream."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.admission.quota import Quota, quota_for
from broker.clock import ManualClock
from broker.config import Auth, Streams
from broker.errors import OverQuota
from broker.limits import RATE_BURST_MAX, RATE_PER_SECOND_MAX, RATE_PER_SECOND_MIN


def auth(**rates: tuple[float, int] | None) -> Auth:
    tokens = [
        {"name": name, "token": name, "scopes": ["streams:*:enqueue"]}
        | ({} if rate is None else {"rate": {"perSecond": rate[0], "burst": rate[1]}})
        for name, rate in rates.items()
    ]
    return msgspec.convert({"tokens": tokens}, Auth)


def caps(rates: dict[str, tuple[float, int] | None]) -> Any:
    entries = {
        pattern: {} if rate is None else {"rate": {"perSecond": rate[0], "burst": rate[1]}}
        for pattern, rate in rates.items()
    }
    return msgspec.convert({"perStreamCaps": entries}, Streams).per_stream_caps


def passes(quota: Quota, token: str = "t", stream: str = "s") -> bool:
    try:
        quota.check(token, stream)
    except OverQuota:
        return False
    quota.take(token, stream)
    return True


def refusal(quota: Quota, token: str = "t", stream: str = "s") -> OverQuota:
    with pytest.raises(OverQuota) as refused:
        quota.check(token, stream)
    return refused.value


def test_without_any_rate_there_is_no_quota() -> None:
    clock = ManualClock()
    assert quota_for(Auth(), {}, clock) is None
    assert quota_for(auth(t=None), caps({"a/**": None}), clock) is None
    assert quota_for(auth(t=(1, 1)), {}, clock) is not None
    assert quota_for(auth(t=None), caps({"a/**": (1, 1)}), clock) is not None


def test_a_burst_passes_and_one_more_does_not() -> None:
    clock = ManualClock()
    quota = Quota(auth(t=(10, 3), other=None), {}, clock)
    assert [passes(quota) for _ in range(5)] == [True, True, True, False, False]
    assert all(passes(quota, "other") for _ in range(100))
    clock.advance(99)
    assert not passes(quota)
    clock.advance(1)
    assert [passes(quota), passes(quota)] == [True, False]
    clock.advance(3_600_000)
    assert [passes(quota) for _ in range(4)] == [True, True, True, False]


def test_the_refusal_names_the_bucket_and_says_how_much_is_left_and_how_long_to_wait() -> None:
    quota = Quota(auth(t=(0.25, 1)), caps({"s": (2, 2)}), ManualClock())
    assert passes(quota)
    refused = refusal(quota)
    assert refused.message == (
        "the token 't' may take 0.25 events a second, and 1 at once; 0 are left now: wait 4 s, and send it again"
    )
    assert refused.retry_after_seconds == 4
    assert refused.detail == {"bucket": "token", "remaining": 0, "limit": 0.25, "burst": 1}
    assert passes(quota, "other")
    refused = refusal(quota, "other")
    assert refused.message.startswith("the stream 's' may take 2 events a second, and 2 at once")
    assert (refused.retry_after_seconds, refused.detail["bucket"]) == (1, "stream")


def test_of_two_empty_buckets_the_one_that_takes_longer_is_named() -> None:
    quota = Quota(auth(t=(1, 1)), caps({"s": (0.1, 1)}), ManualClock())
    assert passes(quota)
    assert (refusal(quota).detail["bucket"], refusal(quota).retry_after_seconds) == ("stream", 10)


def test_a_refused_event_draws_from_neither_bucket() -> None:
    clock = ManualClock()
    quota = Quota(auth(t=(1, 5)), caps({"narrow": (1, 1)}), clock)
    assert passes(quota, stream="narrow")
    assert not any(passes(quota, stream="narrow") for _ in range(20))
    assert [passes(quota, stream="wide") for _ in range(5)] == [True] * 4 + [False]
    clock.advance(1000)
    assert passes(quota, stream="narrow")


def test_each_stream_of_a_pattern_has_a_bucket_of_its_own_and_the_most_specific_pattern_wins() -> None:
    rates = {"a/**": (1, 1), "a/*": (1, 2), "a/b": (1, 3), "a/plain": None}
    quota = Quota(Auth(), caps(rates), ManualClock())

    def burst(stream: str) -> int:
        return next(count for count in range(6) if count == 5 or not passes(quota, stream=stream))

    assert {stream: burst(stream) for stream in ("a/b/c", "a/x", "a/y", "a/b", "a/plain", "b")} == {
        "a/b/c": 1, "a/x": 2, "a/y": 2, "a/b": 3, "a/plain": 2, "b": 5,
    }  # fmt: skip


def test_full_buckets_are_forgotten_and_others_are_not() -> None:
    clock = ManualClock()
    quota = Quota(Auth(), caps({"busy": (0.001, 1), "**": (1000, 1)}), clock)
    assert passes(quota, stream="busy")
    for number in range(10_000):
        assert passes(quota, stream=f"s/{number}")
        clock.advance(1)
    assert len(quota) <= 4
    assert not passes(quota, stream="busy")


def test_past_the_bound_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.admission.quota.STREAM_BUCKETS_MAX", 3)
    quota = Quota(Auth(), caps({"**": (1, 1)}), ManualClock())
    for name, kept in [("a", 1), ("b", 2), ("c", 3), ("d", 3), ("e", 3)]:
        assert passes(quota, stream=name)
        assert len(quota) == kept
    assert not passes(quota, stream="e")


def test_tokens_whose_rate_did_not_change_keep_their_level() -> None:
    quota = Quota(auth(same=(1, 1), changed=(1, 1), gone=(1, 1)), caps({"s": (1, 1)}), ManualClock())
    for token in ("same", "changed", "gone"):
        assert passes(quota, token, "elsewhere")
    assert passes(quota, "nobody", "s")
    quota.replace_tokens(auth(same=(1, 1), changed=(2, 2), new=(1, 1)))
    assert not passes(quota, "same", "elsewhere")
    assert not passes(quota, "nobody", "s")
    assert [passes(quota, "changed", "elsewhere") for _ in range(3)] == [True, True, False]
    assert passes(quota, "new", "elsewhere")
    assert all(passes(quota, "gone", "elsewhere") for _ in range(3))


@given(
    st.floats(RATE_PER_SECOND_MIN, RATE_PER_SECOND_MAX),
    st.integers(1, RATE_BURST_MAX),
    st.lists(st.integers(0, 5_000), max_size=60),
    st.integers(0, 10**10),
)
def test_never_more_passes_than_rate_and_burst_allow_and_the_told_wait_is_enough(
    per_second: float, burst: int, pauses: list[int], start_ms: int
) -> None:
    clock = ManualClock(monotonic_ms=start_ms)
    quota = Quota(auth(t=(per_second, burst)), {}, clock)
    passed = 0
    for pause in pauses:
        clock.advance(pause)
        passed += passes(quota)
        elapsed_s = (clock.monotonic_ms() - start_ms) / 1000
        assert passed <= burst + elapsed_s * per_second + 0.01
    while passes(quota) and passed < len(pauses) + 3:
        passed += 1
    try:
        quota.check("t", "s")
    except OverQuota as refused:
        clock.advance(refused.retry_after_seconds * 1000)
    assert passes(quota)
