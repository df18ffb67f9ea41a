"""Which consumer groups there are, and their copies of streams.

A registration gives a group the streams of a pattern, or one stream, and is on disk before the first subscriber
of the group is let in. From then on the group has a copy of every such stream, also of one that comes into being
while nobody of the group is there: nothing is missed by being away. A registration that begins at the start of
the ledger costs one walk over it, to find the streams that had events and are not known to this process.

    register ──► on disk ──► a copy of each stream there is ──► a copy of each stream there will be
                                    └── from the start, or from now on        └── from its first event on
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from broker.contracts.names import pattern_covers, pattern_matches, stream_name_problem, text_problem
from broker.errors import InUse, NotFound, OverQuota
from broker.journal.group_queries import Registration
from broker.limits import GROUP_NAME_BYTES_MAX, GROUP_REGISTRATIONS_MAX, GROUPS_MAX, GROUPS_PER_STREAM_MAX
from broker.streams.group import Group
from broker.streams.ledger import GroupBook, GroupLedger
from broker.streams.stream import Stream


def group_name_problem(name: str) -> str | None:
    """What is wrong with a name for a group, which is that of one segment of a stream's name."""
    if (problem := text_problem(name, GROUP_NAME_BYTES_MAX)) is not None:
        return problem
    return "it has a /, which names of groups do not have" if "/" in name else stream_name_problem(name)


class Groups:
    """The registrations, and what follows from them for each stream."""

    def __init__(
        self,
        book: GroupBook,
        find: Callable[[str], Stream | None],
        make: Callable[[str], Stream],
        streams: Callable[[], Iterable[Stream]],
        joined: Callable[[Group], None],
        has_subscribers: Callable[[str, str], bool],
    ) -> None:
        self._book = book
        self._find = find
        self._make = make
        self._streams = streams
        self._joined = joined
        self._has_subscribers = has_subscribers
        self._registrations: dict[tuple[str, str], Registration] = {}
        self._count = 0
        self._changing = asyncio.Lock()
        self._being_registered: frozenset[tuple[str, str]] = frozenset()
        """Stream and name of the copies that are on their way to the disk: nobody else is to make them."""

    def registrations(self) -> Sequence[Registration]:
        """Every registration, the oldest first."""
        return tuple(self._registrations.values())

    def recover(self, last_seq: int) -> None:
        """Take up the copies that there were; those of streams that got none in time begin where they were due.

        Called when the streams with unfinished events are there, and before a registration counts for new ones.
        """
        for row, ledger in self._book.groups:
            group = self._add(self._opened(row.stream), row.name, ledger, row.position, last_seq)
            group.replays = row.has_replays
        for registration in self._book.registrations:
            self._registrations[registration.pattern, registration.name] = registration
            self._complete(registration, last_seq)

    def check_room_for(self, stream: str) -> None:
        """Raise OverQuota when the groups that are to have a new stream cannot get a copy any more."""
        if not self._registrations:
            return
        names = {registration.name for registration in self._matching(stream)}
        if self._count + len(names) > GROUPS_MAX:
            raise OverQuota(
                f"stream {stream} cannot be made: groups have {GROUPS_MAX} copies of streams already; delete a group"
            )
        if len(names) > GROUPS_PER_STREAM_MAX:
            raise OverQuota(
                f"stream {stream} cannot be made: {len(names)} groups are to have it, and {GROUPS_PER_STREAM_MAX} may; "
                "delete a group"
            )

    def join_new(self, stream: Stream, last_seq: int) -> None:
        """Give a stream that comes into being to the groups that are to have a copy of it."""
        for registration in self._matching(stream.name):
            is_due = (stream.name, registration.name) in self._being_registered
            if not is_due and not self._has(stream, registration.name):
                self._create(stream, registration.name, last_seq, last_seq)

    async def register(self, pattern: str, name: str, *, from_start: bool, last_seq: Callable[[], int]) -> None:
        """Make sure that a group of a valid name has its copies, on disk too."""
        await _to_its_end(self._register(pattern, name, from_start, last_seq))

    async def _register(self, pattern: str, name: str, from_start: bool, last_seq: Callable[[], int]) -> None:
        async with self._changing:
            if (pattern, name) in self._registrations:
                return
            now = last_seq()
            registration = Registration(pattern, name, 0 if from_start else now)
            known = await self._known(pattern, from_start)
            without = [stream for stream in known if not self._has(self._find(stream), name)]
            self._check_room(registration, without)
            self._being_registered = frozenset((stream, name) for stream in without)
            try:
                ledgers = await self._book.register(registration, without)
                for stream, ledger in zip(map(self._opened, without), ledgers, strict=True):
                    self._add(stream, name, ledger, registration.since_seq, last_seq())
                self._registrations[pattern, name] = registration
            finally:
                self._being_registered = frozenset()
                for each in self.registrations():  # one of its others may be owed what came into being meanwhile
                    if each.name == name:
                        since_seq = registration.since_seq if each is registration else now
                        self._complete(each._replace(since_seq=since_seq), last_seq())

    def _complete(self, registration: Registration, last_seq: int) -> None:
        """Give a group its copies of the streams that came into being while it was written down."""
        for stream in tuple(self._streams()):
            if pattern_matches(registration.pattern, stream.name) and not self._has(stream, registration.name):
                self._create(stream, registration.name, registration.since_seq, last_seq)

    async def _known(self, pattern: str, from_start: bool) -> list[str]:
        """The streams of a pattern that had events, in this process or, if that matters, ever."""
        names = {stream.name for stream in self._streams()}
        if "*" not in pattern:
            return [pattern]
        if from_start:
            names.update(await self._book.streams_of_ledger())
        return sorted(name for name in names if pattern_matches(pattern, name))

    def _check_room(self, registration: Registration, streams: Sequence[str]) -> None:
        """Raise OverQuota when a registration, or the copies of these streams that it brings, would pass a bound."""
        if len(self._registrations) >= GROUP_REGISTRATIONS_MAX:
            raise OverQuota(f"there are {GROUP_REGISTRATIONS_MAX} groups already; delete one that is not needed")
        if self._count + len(streams) > GROUPS_MAX:
            raise OverQuota(f"groups have {GROUPS_MAX} copies of streams already; delete a group that is not needed")
        pattern, name = registration.pattern, registration.name
        # Who has all that this one asks for will have each stream that is still to come.
        covering = {each.name for each in self._registrations.values() if pattern_covers(each.pattern, pattern)}
        counts = {each: len(stream.groups or ()) for each in streams if (stream := self._find(each)) is not None}
        for each, count in ((pattern, len(covering - {name})), *counts.items()):
            if count >= GROUPS_PER_STREAM_MAX:
                raise OverQuota(
                    f"stream {each} has {GROUPS_PER_STREAM_MAX} groups already; group {name} would be one too many"
                )

    async def unregister(self, pattern: str, name: str) -> None:
        """Forget a registration, and the copies that no other one of the group covers."""
        await _to_its_end(self._unregister(pattern, name))

    async def _unregister(self, pattern: str, name: str) -> None:
        async with self._changing:
            if (pattern, name) not in self._registrations:
                raise NotFound(f"there is no group {name!r} of {pattern!r}; GET /v1/groups lists them")
            if self._has_subscribers(pattern, name):  # there may be no stream yet that says so
                raise InUse(f"group {name!r} has subscribers to {pattern}; disconnect them first")
            rest = [each.pattern for each in self.registrations() if each.name == name and each.pattern != pattern]
            gone = [
                stream
                for stream in self._streams()
                if self._has(stream, name)
                and pattern_matches(pattern, stream.name)
                and not any(pattern_matches(other, stream.name) for other in rest)
            ]
            for stream in gone:
                if stream.groups is not None and len(stream.groups[name].credits):
                    raise InUse(f"group {name!r} has subscribers at {stream.name}; disconnect them first")
            registration = self._registrations.pop((pattern, name))  # whoever comes now registers anew, after this
            try:
                await self._book.unregister(pattern, name, [stream.name for stream in gone])
            except BaseException:
                self._registrations[pattern, name] = registration
                raise
            for stream in gone:
                self._drop(stream, name)

    def _matching(self, stream: str) -> list[Registration]:
        return [each for each in self._registrations.values() if pattern_matches(each.pattern, stream)]

    def _opened(self, name: str) -> Stream:
        """A stream that had events, made if this process does not know it yet."""
        return self._find(name) or self._make(name)

    def _has(self, stream: Stream | None, name: str) -> bool:
        return stream is not None and stream.groups is not None and name in stream.groups

    def _create(self, stream: Stream, name: str, position: int, last_seq: int) -> Group:
        return self._add(stream, name, self._book.create(stream.name, name, position), position, last_seq)

    def _add(self, stream: Stream, name: str, ledger: GroupLedger, position: int, last_seq: int) -> Group:
        group = Group(stream.name, stream.rules, name, ledger, position, last_seq)
        stream.groups = {**(stream.groups or {}), name: group}
        self._count += 1
        self._joined(group)
        return group

    def _drop(self, stream: Stream, name: str) -> None:
        rest = {other: group for other, group in (stream.groups or {}).items() if other != name}
        stream.groups = rest or None
        self._count -= 1


async def _to_its_end(change: Coroutine[Any, Any, None]) -> None:
    """Make a change that is not left half done: what is on its way to the disk gets there, whoever gives up waiting."""
    task = asyncio.ensure_future(change)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody is left to be told
        await asyncio.wait([task])
        raise
