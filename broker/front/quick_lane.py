"""The quick lane: plain requests of `POST /v1/enqueue`, of all connections, from their bytes to those of their answers.

A handler of aiohttp that only parses and answers takes 48 µs of the loop for a request; Courier took 78: a parser's
objects, a task, middlewares, a response, and a future for the commit. A producer that sends one event a request says
the same few lines each time. So what is written plainly (`_fast/heads.pyx`) is admitted where it arrives, and its
answer is written where the commit is reported: 25 µs, two fifths of it the kernel's.

aiohttp stays the front end. What is not plain, what may not pass, and what would have to be waited for is left to it
before anything has come of it, and is answered in its words; so both ways give the same answers, to the byte.

Requests that arrive in one turn of the loop are one submission, in their order, unless that could change what comes of
one of them: then each is a submission of its own, as it is the slow way. See `Gate.kind_of`.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol

from _fast import http_answers, plain_request
from broker.admission.auth import Authenticator
from broker.admission.gate import Gate
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError
from broker.front.enqueue import answer_of
from broker.front.guard import Guard
from broker.front.replies import answer_bytes, error_response, head_behind_length, json_response
from broker.front.traffic import Traffic
from broker.journal.submission import Receipts
from broker.limits import GATHERED_BYTES_MAX, GATHERED_EVENTS_MAX, QUICK_BODY_BYTES_MAX

log = logging.getLogger(__name__)

REQUEST_LINE = b"POST /v1/enqueue HTTP/1.1\r\n"
_BEFORE_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "


class Asker(Protocol):
    """A connection that a request came on."""

    def answered(self, answer: bytes) -> None:
        """Write the answer, if there is still somebody to read it. It does not raise."""


class _Group:
    """Requests that arrived together."""

    __slots__ = ("askers", "bytes", "events")

    def __init__(self) -> None:
        self.events: list[InboundEvent] = []
        self.askers: list[Asker] = []
        self.bytes = 0


class QuickLane:
    """Takes the requests of all connections."""

    def __init__(
        self,
        gate: Gate,
        authenticator: Authenticator,
        guard: Guard,
        traffic: Traffic,
        fits: Callable[[int], bool],
        body_bytes_max: int,
    ) -> None:
        self._gate = gate
        self._authenticator = authenticator
        self._key = authenticator.api_key_header.encode()
        self._guard = guard
        self._traffic = traffic
        self._fits = fits
        self._body_bytes_max = min(QUICK_BODY_BYTES_MAX, body_bytes_max)
        self._groups: list[_Group] = []

    def take(self, asker: Asker, data: bytes, call_soon: Callable[..., object]) -> bool:
        """Take a request if it is whole and plain, and may pass; it is answered later. Else nothing has happened."""
        request = plain_request(data, REQUEST_LINE, self._key, self._body_bytes_max)
        if request is None:
            return False
        body, host, authorization, key = request
        if not self._guard.has_passed(host):
            return False
        headers = {}
        if authorization is not None:
            headers["Authorization"] = authorization
        if key is not None:
            headers[self._authenticator.api_key_header] = key
        principal = self._authenticator.find(headers)
        if principal is None:
            return False
        event = self._gate.admit_plain(principal, body)
        if event is None:
            return False
        self._traffic.begin()
        if not self._groups:
            self._groups.append(_Group())
            call_soon(self._hand_over)  # behind what else has arrived in this turn of the loop
        group = self._groups[-1]
        if len(group.events) == GATHERED_EVENTS_MAX or group.bytes >= GATHERED_BYTES_MAX:
            group = _Group()
            self._groups.append(group)
        group.events.append(event)
        group.askers.append(asker)
        group.bytes += len(data)
        return True

    def _hand_over(self) -> None:
        groups, self._groups = self._groups, []
        for group in groups:
            count = len(group.events)
            if count == 1 or (self._gate.kind_of(group.events) is not None and self._fits(count)):
                self._submit(group.events, group.askers)
            else:  # rules are for some, streams differ in kind, or some find room and others do not
                for event, asker in zip(group.events, group.askers, strict=True):
                    self._submit([event], [asker])

    def _submit(self, events: list[InboundEvent], askers: list[Asker]) -> None:
        told = False

        def done(outcome: Any) -> None:
            nonlocal told
            told = True
            self._answer(events, askers, outcome)

        try:
            self._gate.submit(events, done)
        except Exception as error:
            if told:  # what is in memory is answered within the call: nobody is answered twice for a fault behind it
                log.exception("%d requests may not have been answered", len(events))
            else:
                self._answer(events, askers, error)

    def _answer(self, events: list[InboundEvent], askers: list[Asker], outcome: Any) -> None:
        """Answer the requests of one submission."""
        try:
            if isinstance(outcome, Receipts):
                self._tell_receipts(events, askers, outcome)
            else:
                self._tell_error(askers, outcome)
        finally:
            self._traffic.end(len(events))

    def _tell_receipts(self, events: list[InboundEvent], askers: list[Asker], receipts: Receipts) -> None:
        seqs = receipts.seqs if isinstance(receipts.seqs, list) else list(receipts.seqs)
        answers = http_answers(events, seqs, receipts.duplicates, _BEFORE_LENGTH, head_behind_length())
        plain = 0
        for position, answer in enumerate(answers):
            if answer is None:
                self._answer_one(askers[position], answer_of(events[position], position, receipts))
            else:
                plain += 1
                askers[position].answered(answer)
        self._traffic.answered[200] += plain

    def _tell_error(self, askers: list[Asker], error: Exception) -> None:
        if not isinstance(error, CourierError):
            log.error("%d requests failed", len(askers), exc_info=error)
            error = CourierError("the broker met an error of its own; its log has the details")
        for asker in askers:
            self._answer_one(asker, error)

    def _answer_one(self, asker: Asker, answer: dict[str, Any] | CourierError) -> None:
        """Answer a request with what is not written in one piece with others."""
        response = error_response(answer) if isinstance(answer, CourierError) else json_response(answer)
        asker.answered(answer_bytes(response))
        self._traffic.answered[response.status] += 1
