"""An agent within its bounds: how long, how much, how many at once, how often, how many in a chain."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.agents import Agent, AgentFailed, AgentRequest
from broker.agents.budget import MINUTE_MS, Budget
from broker.agents.cause import HOPS_KEY, handling, hops, with_hops
from broker.bus import Event
from broker.clock import ManualClock, SystemClock
from broker.limits import AGENT_ANSWER_BYTES_MAX
from tests.agents.conftest import EVENT
from tests.support.writer import PATIENCE_SECONDS, eventually


class Provider:
    """Gives what it was made with, in one of the ways in which a provider may."""

    def __init__(self, *pieces: Any, streams: bool = False) -> None:
        self.pieces = pieces
        self.streams = streams
        self.requests: list[AgentRequest] = []
        self.inside = self.most = 0
        self.open = asyncio.Event()
        self.open.set()

    def invoke(self, request: AgentRequest) -> Any:
        self.requests.append(request)
        return self._stream() if self.streams else self._whole()

    async def _stream(self) -> AsyncIterator[Any]:
        for piece in self.pieces:
            yield piece

    async def _whole(self) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1
        return self.pieces[0] if self.pieces else None


class User:
    """Whom an answer is shown to."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, pieces: AsyncIterator[str]) -> None:
        async for piece in pieces:
            self.seen.append(piece)


def agent(provider: Any, **options: Any) -> Agent:
    return Agent("reminder_agent", lambda: provider, SystemClock(), **options)


@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_is_shown_whether_it_comes_whole_or_in_pieces(streams: bool) -> None:
    provider, user = Provider("Reminder: tea", streams=streams), User()
    await agent(provider, instructions="be kind", model="m").answer(EVENT, user)
    assert user.seen == ["Reminder: tea"]
    assert provider.requests == [AgentRequest(EVENT, "reminder_agent", "be kind", "m")]


async def test_a_plain_function_may_answer_too_and_none_is_nothing_to_say() -> None:
    class Plain:
        def invoke(self, _request: AgentRequest) -> str:
            return "at once"

    user = User()
    await agent(Plain()).answer(EVENT, user)
    await agent(Provider()).answer(EVENT, user)
    assert user.seen == ["at once"]


async def test_an_answer_that_is_no_text_is_refused() -> None:
    with pytest.raises(AgentFailed, match="answered with int, which is no text"):
        await agent(Provider(5)).answer(EVENT, User())


async def test_an_answer_as_long_as_allowed_passes_and_a_longer_one_does_not() -> None:
    half = "x" * (AGENT_ANSWER_BYTES_MAX // 2)
    user = User()
    await agent(Provider(half, half, streams=True)).answer(EVENT, user)
    assert sum(map(len, user.seen)) == AGENT_ANSWER_BYTES_MAX
    with pytest.raises(AgentFailed, match=f"more than {AGENT_ANSWER_BYTES_MAX} bytes"):
        await agent(Provider(half, half, "x", streams=True)).answer(EVENT, User())


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    provider = Provider("late")
    provider.open.clear()
    with pytest.raises(AgentFailed, match=r"no whole answer within 0\.02 s \(agent\.timeout\)"):
        await agent(provider, timeout=0.02).answer(EVENT, User())
    assert provider.inside == 0, "it was cancelled"


async def test_a_time_out_of_the_provider_itself_is_not_taken_for_that_of_the_agent() -> None:
    class Own:
        async def invoke(self, _request: AgentRequest) -> str:
            raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await agent(Own()).answer(EVENT, User())


async def test_no_more_answers_are_made_at_once_than_allowed() -> None:
    provider = Provider("yes")
    provider.open.clear()
    asked = agent(provider, concurrency=2)
    asking = [asyncio.create_task(asked.answer(EVENT, User())) for _ in range(5)]
    await eventually(lambda: provider.inside == 2)
    provider.open.set()
    await asyncio.wait_for(asyncio.gather(*asking), PATIENCE_SECONDS)
    assert provider.most == 2
    assert len(provider.requests) == 5


# The budget.


async def test_the_calls_of_a_minute_are_bounded_and_the_others_wait_in_order() -> None:
    clock, waits = ManualClock(), list[float]()

    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    budget = Budget(3, clock, sleep)
    for _ in range(3):
        await budget.spend(waits.append)
        clock.advance(10_000)
    assert waits == []
    await budget.spend(waits.append)
    assert waits == [30.0], "until a minute after the first"
    await budget.spend(waits.append)
    assert waits == [30.0, 10.0], "until a minute after the second"


async def test_a_minute_after_a_call_its_place_is_free_and_not_before() -> None:
    clock, waits = ManualClock(), list[float]()

    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    budget = Budget(1, clock, sleep)
    await budget.spend(waits.append)
    clock.advance(MINUTE_MS - 1)
    await budget.spend(waits.append)
    assert waits == [0.001]
    clock.advance(MINUTE_MS)
    await budget.spend(waits.append)
    assert waits == [0.001]


async def test_an_agent_that_is_over_its_budget_waits_says_so_and_asks_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Provider("yes")
    asked = agent(provider, calls_per_minute=1)
    await asked.answer(EVENT, User())
    with caplog.at_level(logging.WARNING):
        waiting = asyncio.create_task(asked.answer(EVENT, User()))
        await eventually(lambda: bool(caplog.records))
    assert "was called 1 times within a minute" in caplog.text
    assert len(provider.requests) == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


# Hops.


def chained(count: Any) -> Event:
    return Event(8, "task.received", "other", {"text": "x", HOPS_KEY: count}, 0.0)


async def test_what_an_agent_publishes_has_one_agent_more_in_its_chain() -> None:
    class Emitting:
        def __init__(self) -> None:
            self.published: list[Any] = []

        async def invoke(self, request: AgentRequest) -> None:
            assert HOPS_KEY not in request.event.payload
            self.published.append(with_hops({"a": 1}))

    emitting = Emitting()
    with handling(chained(2)) as seen:
        await agent(emitting).answer(seen, User())
        assert hops() == 2, "after it, as before it"
    assert emitting.published == [{"a": 1, HOPS_KEY: 3}]
    assert hops() == 0


def test_a_handler_passes_the_number_on_and_adds_nothing() -> None:
    with handling(chained(2)) as seen:
        assert seen.payload == {"text": "x"}
        assert with_hops(seen.payload) == {"text": "x", HOPS_KEY: 2}
    assert with_hops({"text": "x"}) == {"text": "x"}


def test_nobody_can_write_the_number_into_what_they_publish() -> None:
    assert with_hops({"text": "x", HOPS_KEY: 0}) == {"text": "x"}
    with handling(chained(5)):
        assert with_hops({HOPS_KEY: 1}) == {HOPS_KEY: 5}


async def test_after_so_many_agents_the_next_one_is_not_asked() -> None:
    provider = Provider("yes")
    asked = agent(provider, hops_max=3)
    with handling(chained(2)) as seen:
        await asked.answer(seen, User())
    said = r"3 agents led to this event, one after the other.*hops_max is 3"
    with handling(chained(3)) as seen, pytest.raises(AgentFailed, match=said):
        await asked.answer(seen, User())
    assert len(provider.requests) == 1


@pytest.mark.parametrize("count", ["7", True, -1, 2.5, None, [1]])
def test_a_number_that_is_none_counts_as_no_agent(count: Any) -> None:
    with handling(chained(count)):
        assert hops() == 0
