"""Sources as a part of the broker: none of them, what they say of themselves, what keeps it from starting."""

import asyncio
import random
from pathlib import Path

import pytest

from broker.app import App
from broker.errors import ConfigError
from broker.limits import SOURCE_BACKOFF_MS_FIRST, SOURCE_ERROR_CHARACTERS_MAX, SOURCE_RETRY_AFTER_SECONDS_MAX
from broker.sources.backoff import delay_seconds, jittered_seconds
from broker.sources.frames import Frames
from broker.sources.requests import filled_message, filled_url, retry_after_seconds
from broker.sources.state import SourceState
from tests.conftest import Connect, StartApp
from tests.sources.conftest import Pulling
from tests.support.client import assert_error
from tests.support.metrics import scrape
from tests.support.upstream import Upstream, item, rest, until

NOW_US = 1_771_283_421_000_000


async def test_without_sources_there_is_no_session_and_no_task(app: App) -> None:
    assert app.sources._session is None
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("source ")]


async def test_how_they_do_is_told_to_operators_and_counted(
    upstream: Upstream, start_app: StartApp, connect: Connect
) -> None:
    upstream.add(item(1), item(2), {"no": "id"}, item(1))
    upstream.page = 4
    scopes = {"op": ["admin:*"], "other": ["streams:*:subscribe", "metrics:read"]}
    tokens = [{"name": name, "token": name, "scopes": each} for name, each in scopes.items()]
    app = await start_app({"sources": {"rest": [rest(upstream, intervalMs=60_000)]}, "auth": {"tokens": tokens}})
    state = app.sources.states[0]
    await until(lambda: state.phase == "waiting" and state.rounds == 2)
    client = await connect(app.server.address)
    answer = await client.get("v1/sources", headers={"Authorization": "Bearer op"})
    (found,) = answer.body["sources"]
    assert found.pop("nextAttemptAt") > "2026"
    assert found == {
        "name": "weather", "kind": "rest", "stream": "feeds/weather", "state": "waiting", "up": True, "cursor": "4",
        "rounds": 2, "events": 2, "duplicates": 1, "rejected": 1, "errors": 0, "saturations": 0, "lastError": None,
        "lastErrorAt": None,
    }  # fmt: skip
    refused = await client.get("v1/sources", headers={"Authorization": "Bearer other"})
    assert "admin:*" in assert_error(refused, 403, "forbidden")
    metrics = await scrape(client, headers={"Authorization": "Bearer other"})
    counts = {"up": 1.0, "rounds_total": 2.0, "events_total": 2.0, "duplicates_total": 1.0, "rejections_total": 1.0}
    for name, count in {**counts, "errors_total": 0.0, "saturations_total": 0.0}.items():
        assert metrics(f"courier_source_{name}", source="weather") == count


async def test_a_secret_that_is_not_there_and_a_stream_in_memory_keep_the_broker_from_starting(
    upstream: Upstream, pulling: Pulling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEATHER_TOKEN", raising=False)
    with pytest.raises(ConfigError) as refused:
        await pulling.poll(headers={"X-Key": "${env:WEATHER_TOKEN}", "Y": "${file:/no/such}"})
    assert refused.value.problems == [
        'sources.rest[0].headers["X-Key"]: the environment variable WEATHER_TOKEN is not set',
        "sources.rest[0].headers.Y: the file /no/such cannot be read: No such file or directory",
    ]
    with pytest.raises(ConfigError) as refused:
        await pulling.poll({"streams": {"perStreamCaps": {"feeds/*": {"durability": "memory"}}}})
    assert refused.value.problems == [
        "sources.rest[0].stream: expected a stream of the journal, found feeds/weather, which is in memory"
    ]
    assert upstream.requests == []


def test_waits_double_up_to_their_cap_and_at_least_half_of_each_is_waited() -> None:
    rng = random.Random(1)
    for failures, step in ((1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (10_000, 60.0)):
        found = [delay_seconds(failures, 60_000, rng) for _ in range(200)]
        assert step / 2 <= min(found) < 0.6 * step
        assert 0.9 * step < max(found) <= step
    assert delay_seconds(1, SOURCE_BACKOFF_MS_FIRST // 10, rng) <= 0.1
    assert all(0.9 <= jittered_seconds(1000, rng) <= 1.1 for _ in range(200))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None), ("0", 0), ("120", 120), (" 5 ", 5), ("9" * 400, SOURCE_RETRY_AFTER_SECONDS_MAX), ("-1", None),
        ("soon", None), ("", None), ("Mon, 16 Feb 2026 23:10:31 GMT", 10), ("Mon, 16 Feb 2026 23:10:11 GMT", 0),
        ("Mon, 16 Feb 2126 23:10:11 GMT", SOURCE_RETRY_AFTER_SECONDS_MAX),
        ("Mon, 16 Feb 99999999999999999999 23:10:31 GMT", None), ("Mon, 16 Feb 2026 23:10:31 +99999999999999", None),
        (str(SOURCE_RETRY_AFTER_SECONDS_MAX), SOURCE_RETRY_AFTER_SECONDS_MAX),
        (str(SOURCE_RETRY_AFTER_SECONDS_MAX + 1), SOURCE_RETRY_AFTER_SECONDS_MAX),
        (str(SOURCE_RETRY_AFTER_SECONDS_MAX - 1), SOURCE_RETRY_AFTER_SECONDS_MAX - 1),
    ],
)  # fmt: skip
def test_how_long_a_server_asks_to_be_left_alone(text: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(text, NOW_US) == seconds


def test_a_cursor_stands_for_itself_wherever_it_is_put() -> None:
    awkward = 'a/b?c=d&e#f %20"\\é{cursor}'
    assert filled_url("http://h/x/{cursor}/y?q={cursor}", awkward).query["q"] == awkward
    assert filled_message('{"after": "{cursor}"}', 'a"b\\') == '{"after": "a\\"b\\\\"}'


async def test_frames_wait_at_their_bounds_and_end_once() -> None:
    frames = Frames()
    for _ in range(500):
        await frames.put(b"x")
    assert frames.is_full
    more = asyncio.ensure_future(frames.put(b"y"))
    await asyncio.sleep(0)
    assert not more.done()
    assert len(await frames.take()) == 500
    await more
    await frames.put(b"z" * 2 * 1024 * 1024)
    assert frames.is_full, "so many bytes are as good as so many frames"
    frames.end()
    assert len(await frames.take()) == 2
    assert await frames.take() == []


def test_an_error_of_somebody_else_is_kept_on_one_line_and_within_its_bound() -> None:
    state = SourceState("a", "rest", "s", None)
    state.failed("x\n" * 1000, NOW_US)
    assert state.last_error is not None
    assert len(state.last_error) == SOURCE_ERROR_CHARACTERS_MAX
    assert "\n" not in state.last_error
