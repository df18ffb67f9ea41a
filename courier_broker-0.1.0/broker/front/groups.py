"""`/v1/groups` and `/v1/streams/{stream}/groups`: consumer groups, shown and taken away.

They come into being when somebody subscribes: `WS /v1/subscribe?stream=…&group=NAME`.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from aiohttp import web

from broker.contracts.names import stream_pattern_problem
from broker.errors import InvalidRequest, UnknownStream
from broker.front.guard import PRINCIPAL
from broker.front.requests import Query, stream_in_path
from broker.front.shapes import (
    GroupDeleted,
    GroupFigures,
    GroupList,
    GroupRegistration,
    StreamGroups,
    shape_response,
)
from broker.journal.group_queries import Registration
from broker.streams.group import Group
from broker.streams.stream import Stream


class Registrations(Protocol):
    """The groups that there are."""

    def registrations(self) -> Sequence[Registration]:
        """Every registration, the oldest first."""

    async def unregister(self, pattern: str, name: str) -> None:
        """Forget a registration, and the copies that no other one of the group covers."""


class Streams(Protocol):
    """What is needed of the streams."""

    @property
    def groups(self) -> Registrations:
        """The groups that there are."""

    def find(self, name: str) -> Stream | None:
        """The stream of this name, if there is one."""


class GroupEndpoints:
    """The endpoints. Looking needs `subscribe` on the streams, taking away needs `admin:*`."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    async def list_groups(self, request: web.Request) -> web.Response:
        """`GET /v1/groups`."""
        Query(request)
        principal = request[PRINCIPAL]
        shown = [
            GroupRegistration(group=each.name, stream=each.pattern, since=each.since_seq)
            for each in self._streams.groups.registrations()
            if principal.may("streams", each.pattern, "subscribe")
        ]
        return shape_response(GroupList(groups=shown))

    async def of_stream(self, request: web.Request) -> web.Response:
        """`GET /v1/streams/{stream}/groups`."""
        Query(request)
        name = stream_in_path(request)
        request[PRINCIPAL].check_stream(name, "subscribe")
        stream = self._streams.find(name)
        if stream is None:
            raise UnknownStream(f"there is no stream {name!r} now; it comes into being with its first event")
        groups = sorted((stream.groups or {}).items())
        return shape_response(StreamGroups(groups=await asyncio.gather(*(_figures(group) for _, group in groups))))

    async def delete(self, request: web.Request) -> web.Response:
        """`DELETE /v1/groups/{group}?stream=NAME`."""
        request[PRINCIPAL].check_admin()
        pattern = Query(request, "stream").text("stream") or ""
        if (problem := stream_pattern_problem(pattern)) is not None:
            raise InvalidRequest(f"stream: {problem}; say which registration is meant, as GET /v1/groups shows it")
        group = request.match_info["group"]
        await self._streams.groups.unregister(pattern, group)
        return shape_response(GroupDeleted(group=group, stream=pattern, deleted=True))


async def _figures(group: Group) -> GroupFigures:
    known = await group.group_ledger.dead_and_waiting(group.loaded_seq if group.behind else None)
    return GroupFigures(
        group=group.name_of_group,
        position=group.position,
        depth=group.pending - group.in_flight + known.waiting,
        inflight=group.in_flight,
        subscribers=len(group.credits),
        dead=known.dead,
    )
