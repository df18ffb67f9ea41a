"""Rules that come over the API: kept in the journal, in force once they are on disk."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from broker.clock import Clock
from broker.config import Trigger, parse_trigger
from broker.errors import ConfigError, InvalidRequest, NotFound, ReadOnly, TooLarge
from broker.journal.reader import ReaderPool
from broker.journal.trigger_rules import delete_rule, load_rules, put_rule
from broker.limits import TRIGGER_RULE_BYTES_MAX, TRIGGERS_MAX
from broker.triggers.rule import Rule
from broker.triggers.rule_set import RuleSet

log = logging.getLogger(__name__)
T = TypeVar("T")


class Ledger(Protocol):
    """What is needed of the journal."""

    readers: ReaderPool

    async def execute(self, job: Callable[..., T]) -> T:
        """Run a job on the write connection; its result, once that is on disk."""


class RuleStore:
    """Reads, adds and removes the rules of the API."""

    def __init__(self, journal: Ledger, rules: RuleSet, clock: Clock) -> None:
        self._journal = journal
        self._rules = rules
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        """A change waits for the disk between its check and its effect; two at once could pass one bound."""

    async def load(self) -> None:
        """Put the rules that were kept in force. One that cannot be is kept, and said in the log."""
        for rule_id, text in await self._journal.readers.run(load_rules):
            try:
                trigger = parse_trigger(msgspec.json.decode(text))
            except (ConfigError, msgspec.MsgspecError) as error:
                log.error("trigger %s, which was added over the API, cannot be used: %s", rule_id, error)
                continue
            if self._rules.find(rule_id) is not None:
                log.warning("trigger %s was added over the API, but the configuration has one too, which wins", rule_id)
            elif len(self._rules) >= TRIGGERS_MAX:
                log.error("trigger %s, which was added over the API, is one too many: %d", rule_id, TRIGGERS_MAX)
            else:
                self._rules.put(trigger)

    async def put(self, rule_id: str, values: Any) -> Rule:
        """Add or replace a rule; raise InvalidRequest with every problem, each with its key."""
        async with self._one_at_a_time:
            self._check_not_configured(rule_id)
            trigger = _parsed(rule_id, values)
            if self._rules.find(rule_id) is None and len(self._rules) >= TRIGGERS_MAX:
                raise InvalidRequest(f"there are {TRIGGERS_MAX} triggers already; delete one first")
            text = msgspec.json.encode(trigger)
            if len(text) > TRIGGER_RULE_BYTES_MAX:
                raise TooLarge(f"the rule has {len(text)} bytes; at most {TRIGGER_RULE_BYTES_MAX} are accepted")
            now_us = self._clock.wall_us()
            await self._journal.execute(lambda connection: put_rule(connection, rule_id, text, now_us))
            return self._rules.put(trigger)

    async def delete(self, rule_id: str) -> None:
        """Remove a rule; raise NotFound if there is none."""
        async with self._one_at_a_time:
            self._check_not_configured(rule_id)
            if self._rules.find(rule_id) is None:
                raise NotFound(f"there is no trigger {rule_id[:300]!r}")
            await self._journal.execute(lambda connection: delete_rule(connection, rule_id))
            self._rules.remove(rule_id)

    def _check_not_configured(self, rule_id: str) -> None:
        rule = self._rules.find(rule_id)
        if rule is not None and rule.origin == "config":
            raise ReadOnly(f"trigger {rule_id!r} comes from the configuration; change it there, and restart the broker")


def _parsed(rule_id: str, values: Any) -> Trigger:
    if isinstance(values, dict):
        values = {"id": rule_id, **values}
        if values["id"] != rule_id:
            raise InvalidRequest("id: it must be the id in the path, or be left out")
    try:
        return parse_trigger(values)
    except ConfigError as error:
        raise InvalidRequest("\n".join(error.problems), problems=error.problems) from None
