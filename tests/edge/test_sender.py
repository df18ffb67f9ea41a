"""The sender: every row is deleted on its own acknowledgement, and on nothing else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from edge import Backoff, Edge, Pace, limits
from tests.adversity.conftest import until
from tests.edge.conftest import event, ids, rows
from tests.edge.reference_server import ReferenceServer

QUICK = Backoff(0.001, 0.02)
PACE = Pace(retry=QUICK, connect=QUICK, slow=Backoff(0.001, 0.02, 0.5))
StartEdge = Callable[..., Awaitable[Edge]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ReferenceServer]:
    async with ReferenceServer(tmp_path / "inbox.db") as server:
        yield server


@pytest.fixture
async def start_edge(path: Path, server: ReferenceServer) -> AsyncIterator[StartEdge]:
    async with AsyncExitStack() as started:

        async def start(**options: Any) -> Edge:
            given = {"url": server.url, "path": path, "device_id": "pi-1", "pace": PACE, **options}
            return await started.enter_async_context(Edge(given.pop("url"), **given))

        yield start


async def drained(edge: Edge) -> None:
    async with asyncio.timeout(30):
        await edge.drained()


async def put(edge: Edge, count: int, prefix: str = "evt") -> dict[str, bytes]:
    """Put so many; what must arrive."""
    given = [edge.outbox.stamp.event(event(f"{prefix}_{number}", number)) for number in range(count)]
    await asyncio.gather(*(edge.outbox.put_event(each) for each in given))
    return dict(given)


@pytest.mark.parametrize("transport", ["websocket", "http"])
async def test_everything_arrives_once_with_identical_bytes_and_leaves_the_outbox(
    transport: str, start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    edge = await start_edge(url=server.url if transport == "websocket" else server.http_url, token="secret")
    sent = await put(edge, 1500)
    big = b'{"type":"t","payload":{"n":123456789012345678901234567890}}'
    receipt = await edge.put(big)
    await drained(edge)
    stored = server.stored()
    assert stored.pop(receipt.event_id).endswith(big[1:])
    assert stored == sent
    assert ids(path) == []
    assert server.headers["Authorization"] == "Bearer secret"
    assert len(server.received) == 1501
    assert max(server.batches) > 1
    assert edge.outbox.counts["default"].acknowledged == 1501


async def test_the_window_of_the_server_is_kept(start_edge: StartEdge, server: ReferenceServer) -> None:
    server.window, server.deaf = 7, True
    edge = await start_edge()
    await put(edge, 50)
    await until(lambda: edge.sender.flights.unanswered == 7, "the window is full")
    server.deaf = False
    await server.stop()
    await server.start()
    await drained(edge)
    assert max(server.batches) <= 7


def _unknown(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**answer, "event_id": "evt_of_somebody_else"} for answer in answers]


LIES: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "acks unknown ids": _unknown,
    "acks with another status": lambda answers: [{**answer, "status": "received"} for answer in answers],
    "acks without an id": lambda answers: [{"status": "stored"} for _ in answers],
    "acks with a number": lambda answers: [{**answer, "event_id": 5} for answer in answers],
    "says nothing": lambda _answers: [],
    "says nonsense": lambda answers: [{"ok": True} for _ in answers],
}


@pytest.mark.parametrize("lie", LIES)
async def test_no_lie_of_a_server_deletes_a_row(
    lie: str, start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.lie = LIES[lie]
    edge = await start_edge(pace=Pace(retry=QUICK, connect=QUICK, answer_seconds=0.1))
    sent = await put(edge, 20)
    await until(lambda: server.connections >= 4 or edge.sender.flights.strangers >= 20, "it has lied for a while")
    assert sorted(ids(path)) == sorted(sent)
    server.lie = lambda answers: answers
    await drained(edge)
    assert server.stored() == sent


@pytest.mark.parametrize(
    "manner",
    [
        lambda answers: answers + answers,
        lambda answers: answers[::-1],
        lambda answers: answers[1::2] + answers[::2] + answers,
    ],
    ids=["twice", "backwards", "shuffled and twice"],
)
async def test_answers_may_come_twice_and_in_any_order(
    manner: Callable[[list[Any]], list[Any]], start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.lie = manner
    edge = await start_edge()
    sent = await put(edge, 300)
    await drained(edge)
    assert server.stored() == sent
    assert len(server.received) == 300
    assert ids(path) == []


async def test_a_server_that_refuses_everything_keeps_everything_visible_and_is_asked_again(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.refuse = lambda _event: {"code": "invalid_envelope", "message": "no", "retryable": False}
    edge = await start_edge()
    sent = await put(edge, 50)
    await until(lambda: edge.outbox.rejected == 50, "all are refused")
    await drained(edge)
    states = rows(path, "state, last_error")
    assert states == [("rejected", "invalid_envelope: no")] * 50
    await until(lambda: min(count for (count,) in rows(path, "attempt_count")) >= 2, "each was tried again")
    server.refuse = lambda _event: None
    await until(lambda: edge.outbox.depth == 0, "they are taken after all")
    assert server.stored() == sent


async def test_a_refused_event_is_on_the_slow_schedule_and_holds_up_nobody(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    def refuse(given: dict[str, Any]) -> dict[str, Any] | None:
        return {"code": "invalid_envelope", "message": "no"} if given["event_id"] == "evt_0" else None

    server.refuse = refuse
    edge = await start_edge(pace=Pace(retry=QUICK, connect=QUICK))
    sent = await put(edge, 100)
    await drained(edge)
    assert ids(path) == ["evt_0"]
    ((state, at_us),) = rows(path, "state, next_attempt_at")
    assert state == "rejected"
    assert at_us - edge.outbox.now_us() > limits.SLOW_BASE_SECONDS_DEFAULT * 0.4 * 1_000_000
    assert server.stored().keys() == sent.keys() - {"evt_0"}
    assert (await edge.status()).rejected == 1
    server.refuse = lambda _event: None
    assert await edge.outbox.change(lambda store: store.retry_rejected(["evt_0"])) == 1
    await drained(edge)
    assert server.stored() == sent


async def test_a_retryable_refusal_is_tried_again_and_its_patience_is_kept(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.refuse = lambda _event: {
        "code": "over_quota",
        "message": "slowly",
        "retryable": True,
        "retry_after_seconds": 3,
    }
    edge = await start_edge()
    await put(edge, 1)
    await until(lambda: rows(path, "attempt_count") == [(1,)], "it was refused once")
    await put(edge, 10, "more")
    ((state, at_us, error), *_) = rows(path, "state, next_attempt_at, last_error")
    assert (state, error) == ("waiting", "over_quota: slowly")
    assert at_us > edge.outbox.now_us() + 1_000_000
    assert server.received == ["evt_0"]
    server.refuse = lambda _event: None
    await drained(edge)
    assert len(server.stored()) == 11


async def test_a_server_that_closes_after_each_frame_gets_everything_in_the_end(
    start_edge: StartEdge, server: ReferenceServer
) -> None:
    server.close_after_a_frame, server.window = True, 10
    edge = await start_edge()
    sent = await put(edge, 60)
    await drained(edge)
    assert server.stored() == sent
    assert server.connections >= 6


async def test_one_event_that_makes_the_server_cut_the_line_does_not_hold_up_the_others(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    def poisoned(given: dict[str, Any]) -> dict[str, Any] | None:
        if given["event_id"] == "evt_3":
            raise ValueError("the server falls over this one")
        return None

    server.refuse = poisoned
    edge = await start_edge()
    sent = await put(edge, 40)
    await until(lambda: edge.outbox.depth == 1, "all others are stored")
    assert ids(path) == ["evt_3"]
    assert server.stored().keys() == sent.keys() - {"evt_3"}


async def test_a_refusal_that_names_no_event_is_pinned_on_the_one_that_deserves_it(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    def anonymous(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if any(answer["event_id"] == "evt_7" for answer in answers):
            return [{"status": "rejected", "error": {"code": "invalid_request", "message": "this is not JSON"}}]
        return answers

    server.lie = anonymous
    edge = await start_edge(pace=Pace(retry=QUICK, connect=QUICK))
    await put(edge, 30)
    await drained(edge)
    assert rows(path, "event_id, state, last_error") == [("evt_7", "rejected", "invalid_request: this is not JSON")]


@pytest.mark.parametrize("transport", ["websocket", "http"])
async def test_a_captive_portal_costs_no_event(
    transport: str, start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.html = True
    edge = await start_edge(url=server.url if transport == "websocket" else server.http_url)
    sent = await put(edge, 10)
    await until(lambda: server.connections >= 3, "it has tried for a while")
    assert sorted(ids(path)) == sorted(sent)
    assert edge.sender.last_error is not None
    server.html = False
    await drained(edge)
    assert server.stored() == sent


ERROR = b'{"error":{"code":"x","message":"why","retryable":true,"retry_after_seconds":0}}'


@pytest.mark.parametrize("status", [302, 401, 403, 404, 429, 500, 502, 503, 507])
@pytest.mark.parametrize("transport", ["websocket", "http"])
async def test_no_status_of_a_server_costs_an_event_or_marks_it_refused(
    transport: str, status: int, start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.status = (status, {"Location": "http://localhost:1/login"}, ERROR)
    edge = await start_edge(url=server.url if transport == "websocket" else server.http_url)
    sent = await put(edge, 3)
    await until(lambda: server.connections >= 3, "it has tried for a while")
    assert [state for (state,) in rows(path, "state")] == ["waiting"] * 3
    assert str(status) in str(edge.sender.last_error)
    server.status = None
    await drained(edge)
    assert server.stored() == sent


async def test_over_http_only_an_event_that_is_alone_can_be_refused_by_the_status(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.status = (400, {}, b'{"error":{"code":"invalid_envelope","message":"no","retryable":false}}')
    edge = await start_edge(url=server.http_url, pace=Pace(retry=QUICK, connect=QUICK))
    await put(edge, 5)
    await drained(edge)
    assert [state for (state,) in rows(path, "state")] == ["rejected"] * 5
    assert edge.outbox.counts["default"].rejected == 5


async def test_the_patience_that_a_status_asks_for_is_kept_and_survives_a_reboot(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.status = (503, {"Retry-After": "5"}, ERROR)
    edge = await start_edge(url=server.http_url)
    await put(edge, 1)
    await until(lambda: edge.sender.failures == 1, "it was turned away")
    await until(lambda: rows(path, "attempt_count") == [(1,)], "that is noted")
    await edge.close()
    server.status = None
    again = await start_edge(url=server.http_url)
    line = await again.outbox.read(lambda store: store.line())
    assert line.failures == 1
    assert line.next_attempt_at > again.outbox.now_us() + 1_000_000
    await drained(again)
    assert len(server.stored()) == 1
    assert (await again.outbox.read(lambda store: store.line())).failures == 0


async def test_a_half_open_line_is_given_up_and_its_rows_are_sent_again(
    start_edge: StartEdge, server: ReferenceServer
) -> None:
    server.deaf = True
    edge = await start_edge(pace=Pace(retry=QUICK, connect=QUICK, answer_seconds=0.2))
    sent = await put(edge, 20)
    await until(lambda: server.connections >= 2, "the line was given up")
    server.deaf = False
    await drained(edge)
    assert server.stored() == sent


async def test_a_server_that_answers_slowly_is_waited_for_and_no_row_goes_before_its_answer(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.one_by_one = True
    server.answering.clear()
    edge = await start_edge()
    await put(edge, 400)
    await until(lambda: len(server.stored()) > 0, "some are stored, and no answer came")
    assert len(ids(path)) == 400
    server.answering.set()
    await drained(edge)
    assert server.connections == 1
    assert len(server.received) == 400


async def test_a_server_that_stores_and_hangs_up_without_an_answer_costs_no_row(
    start_edge: StartEdge, server: ReferenceServer, path: Path
) -> None:
    server.close_unanswered, server.window = True, 10
    edge = await start_edge()
    sent = await put(edge, 30)
    await until(lambda: server.connections >= 4 and len(server.stored()) > 0, "it hung up a few times")
    assert len(ids(path)) == 30
    server.close_unanswered = False
    await drained(edge)
    assert server.stored() == sent


async def test_without_anything_to_send_nobody_is_called(start_edge: StartEdge, server: ReferenceServer) -> None:
    edge = await start_edge()
    await drained(edge)
    await edge.outbox.change(lambda store: store.note_time())
    assert server.connections == 0
    await put(edge, 1)
    await drained(edge)
    assert server.connections == 1


async def test_a_server_that_comes_back_at_another_time_finds_everything(
    start_edge: StartEdge, server: ReferenceServer
) -> None:
    await server.stop()
    edge = await start_edge()
    sent = await put(edge, 100)
    await until(lambda: edge.sender.failures >= 3, "nobody is there")
    await server.start()
    await drained(edge)
    assert server.stored() == sent


async def test_closing_in_the_middle_loses_nothing(start_edge: StartEdge, server: ReferenceServer, path: Path) -> None:
    sent: dict[str, bytes] = {}
    for life in range(5):
        edge = await start_edge()
        sent |= await put(edge, 100, f"life_{life}")
        await until(lambda: len(server.stored()) > 0, "something has arrived")
        await edge.close()
        assert server.stored().keys() | set(ids(path)) == sent.keys()
    edge = await start_edge()
    await drained(edge)
    assert server.stored() == sent


async def test_one_answer_that_never_comes_does_not_keep_its_row_for_good(
    start_edge: StartEdge, server: ReferenceServer
) -> None:
    server.lie = lambda answers: [answer for answer in answers if answer["event_id"] != "evt_0"]
    edge = await start_edge(pace=Pace(retry=QUICK, connect=QUICK, answer_seconds=0.05))
    await put(edge, 1)
    number = 0
    while server.received.count("evt_0") < 2:
        number += 1
        await put(edge, 5, f"more_{number}")
        await until(lambda: edge.outbox.depth == 1, "all others are answered")
    server.lie = lambda answers: answers
    await drained(edge)
    assert len(server.stored()) == 1 + 5 * number


async def test_a_suspect_that_was_dropped_does_not_slow_the_others_for_good(
    start_edge: StartEdge, server: ReferenceServer
) -> None:
    edge = await start_edge()
    edge.sender._suspects, edge.sender._suspicion = {"long gone"}, 10
    await put(edge, 300)
    await drained(edge)
    assert not edge.sender._suspects
    assert max(server.batches) > 1
