"""`GET /v1/sources`: the sources that the broker pulls from, and how each is doing."""

from collections.abc import Sequence

from aiohttp import web

from broker.front.guard import PRINCIPAL
from broker.front.requests import Query
from broker.front.shapes import Shape, shape_response, shown_time_or_none
from broker.sources.state import Kind, Phase, SourceState


class SourceShown(Shape):
    """A source. The counts are since the start of the broker, the cursor is the one on disk."""

    name: str
    kind: Kind
    stream: str
    state: Phase
    up: bool
    cursor: str | None
    rounds: int
    events: int
    duplicates: int
    rejected: int
    errors: int
    saturations: int
    last_error: str | None
    last_error_at: str | None
    next_attempt_at: str | None


class SourceList(Shape):
    """The sources, in the order of the configuration."""

    sources: list[SourceShown]


class SourceEndpoints:
    """The endpoint. A cursor and an error of somebody else's server are for operators."""

    def __init__(self, states: Sequence[SourceState]) -> None:
        self._states = states

    async def list_sources(self, request: web.Request) -> web.Response:
        """`GET /v1/sources`."""
        request[PRINCIPAL].check_admin()
        Query(request)
        return shape_response(SourceList(sources=[_shown(state) for state in self._states]))


def _shown(state: SourceState) -> SourceShown:
    return SourceShown(
        name=state.name,
        kind=state.kind,
        stream=state.stream,
        state=state.phase,
        up=state.is_up,
        cursor=state.cursor,
        rounds=state.rounds,
        events=state.events,
        duplicates=state.duplicates,
        rejected=state.rejected,
        errors=state.errors,
        saturations=state.saturations,
        last_error=state.last_error,
        last_error_at=shown_time_or_none(state.last_error_at),
        next_attempt_at=shown_time_or_none(state.next_attempt_at),
    )
