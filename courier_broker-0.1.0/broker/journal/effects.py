"""What is done for an event in the transaction that stores it, exactly once (001, steps 6 to 9).

An effect runs on the writer thread, when its event is new, and its changes are committed with the event. It gets the
cursor of the write connection and the event, and does nothing but SQL: it holds up everybody else's commits, and it
runs again if the whole transaction is tried again. What it must not do is end the transaction.

The effects of one event are in one savepoint. If one of them fails, they are undone and the event's row is taken out
again before anything is committed, with all that rules made of it: as if the event had never come. The sequences stay
unused.
"""

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import apsw

from broker.contracts.inbound import InboundEvent
from broker.errors import EffectFailed
from broker.journal.failures import code_of

log = logging.getLogger(__name__)

Effect = Callable[[apsw.Cursor, InboundEvent], None]

FAULTS_OF_ITS_OWN = frozenset(
    {apsw.SQLITE_ERROR, apsw.SQLITE_CONSTRAINT, apsw.SQLITE_MISMATCH, apsw.SQLITE_TOOBIG, apsw.SQLITE_RANGE}
)
"""Result codes that speak of the SQL of an effect or a job; any other one speaks of the storage, and of the batch."""


# What is new has only new events behind it, so nothing is found here that was committed before.
_MADE_OF_IT = """
WITH RECURSIVE made (seq) AS (
  VALUES (?)
  UNION ALL
  SELECT effect_seq FROM causes JOIN made ON cause_seq = made.seq
)
SELECT seq FROM made
"""


class _Registered(NamedTuple):
    contract: str
    types: re.Pattern[str]
    effect: Effect


class Effects:
    """The effects that are registered, by the types of the events that they are for."""

    def __init__(self) -> None:
        self._registered: tuple[_Registered, ...] = ()
        self.failures = 0
        """How many events were not stored because of a failing effect, since the start of the broker."""

    def register(self, pattern: str, *, contract: str = "pixel") -> Callable[[Effect], Effect]:
        """Register the decorated function for events of a contract whose type matches; `*` stands for anything.

        Only events of the contract count: who may enqueue elsewhere cannot bring an effect about by naming its type.
        """
        types = re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)

        def add(effect: Effect) -> Effect:
            self._registered = (*self._registered, _Registered(contract, types, effect))
            return effect

        return add

    def of(self, event: InboundEvent) -> list[Effect]:
        """The effects of one event, in the order in which they were registered."""
        return [
            each.effect
            for each in self._registered
            if each.contract == event.contract and each.types.fullmatch(event.type)
        ]

    def run(
        self, connection: apsw.Connection, new_events: Iterable[tuple[int, InboundEvent]]
    ) -> dict[int, EffectFailed]:
        """Run the effects of new events inside the open transaction; why each event failed that did, by its sequence.

        What rules made of an event fails with it. Raise apsw.Error when it is the storage that fails, RuntimeError when
        an effect has ended the transaction.
        """
        failed: dict[int, EffectFailed] = {}
        failures, last = 0, ""
        for seq, event in new_events:
            effects = self.of(event)
            if not effects:
                continue
            problem = _problem(connection, effects, event)
            if not connection.in_transaction:
                raise RuntimeError(f"an effect of {event.type} ended the transaction that it was called in")
            if problem is not None:
                refusal = EffectFailed("an effect of this event failed, and it was not stored; send it again")
                failed.update(dict.fromkeys(_take_out(connection, seq), refusal))
                failures, last = failures + 1, f"{event.type}: {problem}"
        if failed:
            self.failures += failures
            log.error("%d events were not stored, because their effects failed; the last is %s", failures, last)
        return failed


def _take_out(connection: apsw.Connection, seq: int) -> list[int]:
    """Delete a new event and what rules made of it; the sequences of all of them."""
    made: list[Any] = connection.execute(_MADE_OF_IT, (seq,)).fetchall()
    connection.executemany("DELETE FROM causes WHERE effect_seq = ?", made)
    connection.executemany("DELETE FROM ledger WHERE seq = ?", made)
    return [each for (each,) in made]


def _problem(connection: apsw.Connection, effects: list[Effect], event: InboundEvent) -> str | None:
    """Run the effects of one event in a savepoint; what went wrong."""
    cursor = connection.cursor()
    try:
        with connection:
            for effect in effects:
                effect(cursor, event)
    except apsw.Error as error:
        if code_of(error) & 0xFF not in FAULTS_OF_ITS_OWN:
            raise
        return f"{type(error).__name__}: {error}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the effect's own; only its event suffers
        return f"{type(error).__name__}: {error}"
    finally:
        cursor.close(True)
    return None
