"""A view on disk: right again after a restart or a crash, from the copy and the short tail of the ledger."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.clock import ManualClock
from broker.config import Retention as RetentionConfig
from broker.config import Views as ViewsConfig
from broker.errors import DiskFull
from broker.journal import view_rows
from broker.journal.journal import Journal
from broker.journal.retention import Retention
from broker.streams.entry import MEMORY_SEQ_FIRST
from broker.views import store as store_module
from broker.views.catalogue import Views
from tests.conftest import Connect, StartApp
from tests.journal.conftest import OpenJournal, event, rows, until
from tests.support.streams import acked
from tests.support.views import VIEW, agent, inbound

OpenViews = Callable[..., Awaitable[Views]]


def shown(views: Views) -> tuple[int, dict[str, bytes]]:
    view = views.find(VIEW)
    return view.seq, {key: held.envelope for key, held in view.items()}


async def views_on(journal: Journal, **bounds: int) -> Views:
    """Views that are loaded from, and fed by, a journal."""
    views = Views(ViewsConfig(**bounds), journal)
    await views.load()
    journal.on_events = views.take
    return views


async def publish(journal: Journal, *names: str, size: int = 0) -> None:
    """An event for each agent, its envelope different from all others."""
    publish.count += len(names)  # type: ignore[attr-defined]
    at = publish.count  # type: ignore[attr-defined]
    await journal.append(
        [
            event(f"{name}-{at}-{place}", stream=agent(name), envelope=b'"%d-%d%b"' % (at, place, b"x" * size))
            for place, name in enumerate(names)
        ]
    )


publish.count = 0  # type: ignore[attr-defined]


async def test_after_an_orderly_stop_the_view_is_what_it_was_and_nothing_of_the_ledger_is_read(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a", "b", "a")
    await journal.append([event("other", stream="jobs")])
    before = shown(views)
    assert before[0] == 4
    await views.close()
    await journal.close()
    read: list[tuple[int, int]] = []
    tail = view_rows.tail

    def spy(connection: apsw.Connection, key_of: Any, after_seq: int, rows_max: int) -> view_rows.Tail:
        found = tail(connection, key_of, after_seq, rows_max)
        read.append((after_seq, found.last_seq))
        return found

    monkeypatch.setattr(view_rows, "tail", spy)
    again = await views_on(await open_journal())
    assert shown(again) == before
    assert read == [(4, 4)]
    assert not again.store_of(VIEW)._unsaved, "the disk has all of it"


async def test_without_a_last_save_only_the_tail_behind_the_copy_is_read(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "VIEW_TAIL_ROWS", 2)
    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a", "b")
    await views.store_of(VIEW).save()
    await publish(journal, "b", "c", "d", "b", "e")
    before = shown(views)
    await journal.close()  # as a crash: the views are not told
    journal = await open_journal()
    again = Views(ViewsConfig(), journal)
    await again.load()
    assert again.saved_seq == 2
    assert shown(again) == before
    for each in (views, again):
        await _forget(each)


async def _forget(views: Views) -> None:
    """Leave no timer behind, and save nothing."""
    store = views.store_of(VIEW)
    if store._timer is not None:
        store._timer.cancel()
        store._timer = None
    await views.close()


async def test_the_view_of_a_ledger_from_before_there_were_views_is_built_once(open_journal: OpenJournal) -> None:
    journal = await open_journal()
    await publish(journal, "a", "b", "a")
    views = await views_on(journal)
    assert shown(views)[0] == 3
    assert views.saved_seq == 0
    views.start()
    await views.close()
    assert views.saved_seq == 3


async def test_what_has_changed_is_saved_by_itself_soon_after(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store_module, "SAVE_EVERY_SECONDS", 0.001)
    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a")
    await journal.append([event("other", stream="jobs")])
    await until(lambda: views.saved_seq == 2)
    assert rows(tmp_path, "SELECT key, seq FROM view_rows") == [(agent("a"), 1)]
    await views.close()


async def test_a_large_view_is_saved_in_several_commits_each_true_for_its_sequence(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store_module, "VIEW_SAVE_ROWS_MAX", 2)
    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a", "b", "c", "a", "d")
    saved: list[tuple[dict[str, int], int]] = []
    saver = view_rows.saver

    def spy(view: str, given: dict[str, int], gone: list[str], up_to_seq: int) -> Any:
        saved.append((dict(given), up_to_seq))
        return saver(view, given, gone, up_to_seq)

    monkeypatch.setattr(view_rows, "saver", spy)
    await views.store_of(VIEW).save()
    assert saved == [({agent("b"): 2, agent("c"): 3}, 3), ({agent("a"): 4, agent("d"): 5}, 5)]
    await views.close()


async def test_what_changes_while_the_view_is_saved_is_left_for_the_next_time(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await open_journal()
    views = await views_on(journal, max_entries=2)
    store = views.store_of(VIEW)
    execute = journal.execute

    async def busy(job: Any) -> Any:
        done = await execute(job)
        await publish(journal, f"n{store.saves}-1", f"n{store.saves}-2", f"n{store.saves}-3")
        return done

    await publish(journal, "a", "b", "c")
    monkeypatch.setattr(journal, "execute", busy)
    for saves in (1, 2, 3):
        await store.save()
        assert store.saves == saves, "or it would never end"
    monkeypatch.undo()
    await views.close()


async def test_one_commit_saves_no_more_bytes_than_its_bound_but_always_one_row(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "VIEW_SAVE_BYTES_MAX", 10)
    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a", "b", "c", size=50)
    store = views.store_of(VIEW)
    await store.save()
    assert (store.saves, store.saved_seq) == (3, 3)
    await views.close()


async def test_retention_does_not_take_what_the_copy_does_not_have_and_the_copy_outlives_it(
    open_journal: OpenJournal, clock: ManualClock, tmp_path: Path
) -> None:
    async def no_pause(_seconds: float) -> None:
        pass

    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a", "b")
    for seq in (1, 2):
        journal.processed(acked(seq, 1))
    await journal.execute(lambda _connection: None)
    sweeper = Retention(journal, RetentionConfig(max_bytes=1), clock, lambda: views.saved_seq)
    assert await sweeper.sweep(no_pause) == 0
    await views.store_of(VIEW).save()
    assert await sweeper.sweep(no_pause) == 2
    before = shown(views)
    await views.close()
    await journal.close()
    assert rows(tmp_path, "SELECT count(*) FROM ledger WHERE envelope IS NULL") == [(2,)]
    assert shown(await views_on(await open_journal())) == before


async def test_an_address_whose_last_envelope_was_emptied_before_there_were_views_is_not_in_the_view(
    open_journal: OpenJournal,
) -> None:
    journal = await open_journal()
    await publish(journal, "a", "b", "a")
    await journal.execute(lambda connection: connection.execute("UPDATE ledger SET envelope = NULL WHERE seq = 3"))
    views = await views_on(journal)
    assert list(views.find(VIEW).keys()) == [agent("b")], "the one before the last is not the last"
    await views.close()


@pytest.mark.parametrize("table", ["view_rows", "ledger"])
async def test_damaged_bytes_are_never_shown(open_journal: OpenJournal, table: str) -> None:
    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a", "b")
    if table == "view_rows":
        await views.store_of(VIEW).save()
    await journal.execute(lambda connection: connection.execute(f"UPDATE {table} SET envelope = x'31' WHERE seq = 1"))
    await _forget(views)
    again = await views_on(journal)
    assert list(again.find(VIEW).keys()) == [agent("b")]
    await again.close()


async def test_streams_in_memory_are_not_saved(open_journal: OpenJournal, tmp_path: Path) -> None:
    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a")
    views.take([(MEMORY_SEQ_FIRST, inbound(agent("m"), b"1"))])
    await views.close()
    assert rows(tmp_path, "SELECT key FROM view_rows") == [(agent("a"),)]


async def test_a_smaller_bound_after_a_restart_forgets_the_quietest_here_and_on_disk(
    open_journal: OpenJournal, tmp_path: Path
) -> None:
    journal = await open_journal()
    views = await views_on(journal)
    await publish(journal, "a", "b", "c")
    await views.close()
    await journal.close()
    journal = await open_journal()
    views = await views_on(journal, max_entries=2)
    assert list(views.find(VIEW).keys()) == [agent("b"), agent("c")]
    views.start()
    await views.close()
    assert rows(tmp_path, "SELECT key FROM view_rows ORDER BY key") == [(agent("b"),), (agent("c"),)]


async def test_an_address_that_was_forgotten_and_came_back_can_be_forgotten_again(
    open_journal: OpenJournal, tmp_path: Path
) -> None:
    journal = await open_journal()
    views = await views_on(journal, max_entries=1)
    for names in ("a", "ba", "b"):
        for name in names:
            await publish(journal, name)
        await views.store_of(VIEW).save()
        assert rows(tmp_path, "SELECT key FROM view_rows") == [(agent(names[-1]),)]
    await views.close()


async def test_a_save_that_fails_is_tried_again(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_module, "SAVE_EVERY_SECONDS", 0.001)
    journal = await open_journal()
    views = await views_on(journal)
    store = views.store_of(VIEW)
    execute = journal.execute

    async def fail_twice(job: Any) -> Any:
        if store.failures < 2:
            raise DiskFull("no room")
        return await execute(job)

    monkeypatch.setattr(journal, "execute", fail_twice)
    await publish(journal, "a")
    await until(lambda: store.saved_seq == 1)
    assert store.failures == 2
    assert "could not be saved, trying again: no room" in caplog.text
    await views.close()


def _empty(directory: Path) -> None:
    for file in directory.iterdir():
        file.unlink()


programs = st.lists(
    st.one_of(
        st.lists(st.sampled_from("abcde"), min_size=1, max_size=5),
        st.sampled_from(["save", "crash", "stop"]),
    ),
    max_size=15,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs, st.integers(1, 6))
async def test_however_often_it_crashes_the_view_is_what_the_ledger_says(
    open_journal: OpenJournal, tmp_path: Path, program: list[Any], entries_max: int
) -> None:
    _empty(tmp_path)
    journal = await open_journal()
    views = await views_on(journal, max_entries=entries_max)
    for step in program:
        if step == "save":
            await views.store_of(VIEW).save()
            saved = dict(rows(tmp_path, "SELECT key, seq FROM view_rows"))
            assert saved == {key: held.seq for key, held in views.find(VIEW).items()}
        elif step in ("crash", "stop"):
            await (views.close() if step == "stop" else _forget(views))
            await journal.close()
            journal = await open_journal()
            views = await views_on(journal, max_entries=entries_max)
        else:
            await publish(journal, *step)
        latest: dict[str, tuple[int, bytes]] = {}
        for seq, stream, envelope in rows(tmp_path, "SELECT seq, stream, envelope FROM ledger ORDER BY seq"):
            latest.pop(stream, None)
            latest[stream] = (seq, envelope)
        expected = dict(list(latest.items())[-entries_max:])
        assert {key: (held.seq, held.envelope) for key, held in views.find(VIEW).items()} == expected
    await _forget(views)
    await journal.close()


async def test_the_retention_of_a_broker_waits_for_its_views(start_app: StartApp, connect: Connect) -> None:
    async def no_pause(_seconds: float) -> None:
        pass

    clock = ManualClock()
    app = await start_app({"journal": {"retention": {"maxAgeSeconds": 60}}}, clock=clock)
    client = await connect(app.server.address)
    await client.enqueue("e-1")
    app.journal.processed(acked(1, 1))
    await app.journal.execute(lambda _connection: None)
    clock.advance(60_001)
    assert await app.core.retention.sweep(no_pause) == 0
    await app.views.store_of(VIEW).save()
    assert await app.core.retention.sweep(no_pause) == 1
    assert len((await client.get(f"v1/snapshot?view={VIEW}")).body["snapshot"]) == 1
