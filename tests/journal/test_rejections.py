"""Refusals that are kept: bounded in number, in size and by the second, and never a reason for a commit to fail."""

from typing import Any

from broker.clock import ManualClock
from broker.journal.journal import Journal
from broker.journal.rejections import Rejection, Rejections
from broker.limits import (
    REJECTION_BODY_BYTES_MAX,
    REJECTION_TEXT_CHARACTERS_MAX,
    REJECTIONS_BURST_MAX,
    REJECTIONS_PER_SECOND_MAX,
)

PLAIN = Rejection("skyra", "local", 1, "invalid_envelope", "no", b"{}")


async def kept(journal: Journal) -> list[Any]:
    return await journal.execute(
        lambda c: c.execute("SELECT source_event_id, message, body FROM rejections").fetchall()
    )


async def test_what_sqlite_could_not_take_is_made_fit(journal: Journal) -> None:
    odd = PLAIN._replace(message="\ud800" + "x" * 5000, source_event_id="\udcff\x00", body=b"\xff" * 100_000)
    job = Rejections(ManualClock()).keep([odd, PLAIN._replace(body=None)])
    assert job is not None
    await journal.execute(job)
    (event_id, message, body), plain = await kept(journal)
    assert (event_id, message) == ("?\x00", "?" + "x" * (REJECTION_TEXT_CHARACTERS_MAX - 1))
    assert body == b"\xff" * REJECTION_BODY_BYTES_MAX
    assert plain == (None, "no", None)


def test_a_rate_bounds_how_many_are_kept_and_refills_with_time() -> None:
    clock = ManualClock()
    rejections = Rejections(clock)
    assert rejections.keep([PLAIN] * (REJECTIONS_BURST_MAX + 1)) is not None
    assert (rejections.kept, rejections.dropped) == (REJECTIONS_BURST_MAX, 1)
    assert rejections.keep([PLAIN]) is None
    clock.advance(1000)
    assert rejections.keep([PLAIN] * (REJECTIONS_PER_SECOND_MAX + 1)) is not None
    assert (rejections.kept, rejections.dropped) == (REJECTIONS_BURST_MAX + REJECTIONS_PER_SECOND_MAX, 3)
    clock.advance(3_600_000)
    rejections.keep([PLAIN] * (2 * REJECTIONS_BURST_MAX))
    assert rejections.kept == 2 * REJECTIONS_BURST_MAX + REJECTIONS_PER_SECOND_MAX
