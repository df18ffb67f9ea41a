"""Token buckets: how many events a token, and a stream, may take in (003 §12).

A bucket is kept as one number, the time at which it will be full again; its level follows from that. So an
untouched bucket costs nothing, a full one can be forgotten, and nothing has to be refilled by a timer.
Both buckets of an event are looked at before either is drawn from: a refused event costs nothing.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from broker.clock import Clock
from broker.config import Auth, Rate, StreamCaps
from broker.contracts.names import pattern_matches, pattern_specificity
from broker.errors import OverQuota
from broker.limits import STREAM_BUCKETS_MAX, STREAM_RATES_REMEMBERED_MAX

_ROUNDING = 1e-6
"""How much of one event's time may be missing, so that who waited as long as told is not refused by a rounding."""

_LOOKED_AT = 2
"""How many buckets are looked at, to forget those that are full, for each one that is added."""


class Bucket:
    """The size of a bucket. Its level is the time at which it is full again, which its owner keeps."""

    __slots__ = ("_interval_ms", "_size_ms", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._interval_ms = 1000.0 / rate.per_second
        self._size_ms = rate.burst * self._interval_ms

    def wait_ms(self, full_at_ms: float, now_ms: float) -> float:
        """How long until one event more may pass; at most 0 when it may now."""
        return full_at_ms - now_ms - self._size_ms + self._interval_ms * (1 - _ROUNDING)

    def remaining(self, full_at_ms: float, now_ms: float) -> int:
        """How many events may pass now."""
        filled_ms = self._size_ms - max(0.0, full_at_ms - now_ms)
        return math.floor(filled_ms / self._interval_ms + _ROUNDING)

    def drawn(self, full_at_ms: float, now_ms: float) -> float:
        """When the bucket is full again, after one event more."""
        return max(full_at_ms, now_ms) + self._interval_ms


class _Lack(NamedTuple):
    """A bucket in which there is too little."""

    wait_ms: float
    of: str
    name: str
    remaining: int
    rate: Rate


class Quota:
    """The buckets of every token and stream for which a rate is configured."""

    def __init__(self, auth: Auth, caps: Mapping[str, StreamCaps], clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[str, Bucket] = {}
        self._tokens_full_at: dict[str, float] = {}
        self._streams_full_at: dict[str, float] = {}
        self._stream_bucket = _buckets(caps)
        self.refusals = {"token": 0, "stream": 0}
        """How many events found a bucket empty: that of their token, or that of their stream."""
        self.replace_tokens(auth)

    def replace_tokens(self, auth: Auth) -> None:
        """Take the rates of other tokens; one whose rate stays what it was keeps its level."""
        before = self._tokens
        self._tokens = {token.name: Bucket(token.rate) for token in auth.tokens if token.rate is not None}
        self._tokens_full_at = {
            name: full_at
            for name, full_at in self._tokens_full_at.items()
            if name in self._tokens and self._tokens[name].rate == before[name].rate
        }

    def __len__(self) -> int:
        """How many levels are kept."""
        return len(self._tokens_full_at) + len(self._streams_full_at)

    def check(self, token: str, stream: str) -> None:
        """Raise OverQuota unless this token may put one event more on this stream now."""
        now = self._clock.monotonic_ms()
        lacks = []
        for of, name, bucket, full_at in (
            ("token", token, self._tokens.get(token), self._tokens_full_at.get(token, 0.0)),
            ("stream", stream, self._stream_bucket(stream), self._streams_full_at.get(stream, 0.0)),
        ):
            if bucket is not None and (wait_ms := bucket.wait_ms(full_at, now)) > 0:
                lacks.append(_Lack(wait_ms, of, name, bucket.remaining(full_at, now), bucket.rate))
        if lacks:
            lack = max(lacks)
            self.refusals[lack.of] += 1
            raise _refusal(lack)

    def take(self, token: str, stream: str) -> None:
        """Draw one event from both buckets, after `check` let it pass."""
        now = self._clock.monotonic_ms()
        bucket = self._tokens.get(token)
        if bucket is not None:
            self._tokens_full_at[token] = bucket.drawn(self._tokens_full_at.get(token, 0.0), now)
        bucket = self._stream_bucket(stream)
        if bucket is not None:
            levels = self._streams_full_at
            if stream not in levels:
                self._make_room(now)
            levels[stream] = bucket.drawn(levels.get(stream, 0.0), now)

    def _make_room(self, now: float) -> None:
        """Forget full buckets among the oldest few.

        There are not more buckets than streams, so those that are not full stay below the bound.
        """
        levels = self._streams_full_at
        for _ in range(min(_LOOKED_AT, len(levels))):
            oldest = next(iter(levels))
            full_at = levels.pop(oldest)
            if full_at > now:
                levels[oldest] = full_at
        if len(levels) >= STREAM_BUCKETS_MAX:
            del levels[next(iter(levels))]


def quota_for(auth: Auth, caps: Mapping[str, StreamCaps], clock: Clock) -> Quota | None:
    """The quota of a configuration; None when nothing in it has a rate."""
    rates = [token.rate for token in auth.tokens] + [each.rate for each in caps.values()]
    return None if all(rate is None for rate in rates) else Quota(auth, caps, clock)


def _buckets(caps: Mapping[str, StreamCaps]) -> Callable[[str], Bucket | None]:
    """The function from a stream to its bucket: that of the most specific pattern that has a rate."""
    buckets = {pattern: Bucket(each.rate) for pattern, each in caps.items() if each.rate is not None}

    @lru_cache(maxsize=STREAM_RATES_REMEMBERED_MAX)
    def bucket_of(stream: str) -> Bucket | None:
        matching = [pattern for pattern in buckets if pattern_matches(pattern, stream)]
        return buckets[max(matching, key=pattern_specificity)] if matching else None

    return bucket_of


def _refusal(lack: _Lack) -> OverQuota:
    seconds = max(1, math.ceil(lack.wait_ms / 1000))
    per_second, burst = lack.rate.per_second, lack.rate.burst
    return OverQuota(
        f"the {lack.of} {lack.name!r} may take {per_second:g} events a second, and {burst} at once; "
        f"{lack.remaining} are left now: wait {seconds} s, and send it again",
        retry_after_seconds=seconds,
        bucket=lack.of,
        remaining=lack.remaining,
        limit=per_second,
        burst=burst,
    )
