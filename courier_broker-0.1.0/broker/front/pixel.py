"""`POST /plugin/events`: the events of game-server plugins (001).

The plugin takes every HTTP error status for a transport that may be tried again, and a body that is not JSON for a
final failure. So what the contract decides is answered with 200, refusals included, and only what the broker cannot do
just now with a 503; both in the words of the contract.
"""

from collections import Counter
from contextlib import suppress

from aiohttp import web

from broker.admission.auth import Principal
from broker.admission.commits import committed
from broker.admission.gate import Gate
from broker.clock import Clock
from broker.contracts import pixel
from broker.contracts.pixel_schemas import PixelSchemas
from broker.errors import (
    CourierError,
    Draining,
    IngestionUnavailable,
    OverQuota,
    TooLarge,
    Unauthorized,
    UnknownStream,
)
from broker.front.guard import PRINCIPAL
from broker.front.replies import REFUSALS, error_response, json_response
from broker.front.requests import JSON, check_content_type, check_not_packed
from broker.journal.rejections import Rejection, Rejections

LOGIN_HEADER = "X-Pixel-Server-Login"
VERSION_HEADER = "X-Pixel-Plugin-Version"
RETRY_SECONDS = 5
"""When to send again what the broker could not take (001)."""


def refusal(error: CourierError) -> web.Response:
    """An error that arose before the endpoint was reached, or in it, as an answer to the plugin."""
    if isinstance(error, Unauthorized):
        return rejected(error)
    if error.status < 500:
        return error_response(error)  # a host that is not served, a body that did not come: not of this contract
    return unavailable(error)


def rejected(error: CourierError) -> web.Response:
    """The answer to an event that is refused for good."""
    REFUSALS[error.code] += 1
    return json_response(pixel.rejected(error))


def unavailable(error: CourierError) -> web.Response:
    """The answer to an event that the broker cannot take now."""
    seconds = max(RETRY_SECONDS, error.retry_after_seconds)
    answer = error_response(IngestionUnavailable(error.message, retry_after_seconds=seconds))
    if isinstance(error, Draining):
        answer.force_close()
    return answer


class PixelEvents:
    """The endpoint: the nine steps of the document, the first of which the guard has done."""

    def __init__(
        self,
        gate: Gate,
        rejections: Rejections,
        clock: Clock,
        schemas: PixelSchemas | None,
        payloads: pixel.PayloadSchemas,
    ) -> None:
        self._gate = gate
        self._rejections = rejections
        self._clock = clock
        self._schemas = schemas
        self._payloads = payloads
        self.payload_violations: Counter[tuple[str, str]] = Counter()
        """How many new events broke the operator's schema, by version and name; there are as many keys as schemas."""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request in one of the four bodies of the document."""
        body = b""
        try:
            check_content_type(request, JSON)
            check_not_packed(request)
            body = await _read(request)
            event, violation = self._admit(request, body)
            receipts = await committed(self._gate, (event,), effects=True)
            if receipts.seqs[0] == 0:
                raise receipts.refusal(0)
        except CourierError as error:
            return await self._refused(request[PRINCIPAL], body, error)
        is_duplicate = receipts.seqs[0] < 0
        if violation is not None and not is_duplicate:
            self.payload_violations[event.schema_version or "", event.type] += 1
        return json_response(pixel.accepted(event, duplicate=is_duplicate))

    def _admit(self, request: web.Request, body: bytes) -> pixel.Parsed:
        if self._schemas is None:
            raise IngestionUnavailable("this endpoint needs jsonschema-rs, which is not installed: pip install it")
        told = pixel.Told(*(pixel.header_note(request.headers.get(name)) for name in (LOGIN_HEADER, VERSION_HEADER)))
        principal = request[PRINCIPAL]
        parsed = pixel.parse(body, self._schemas, self._payloads, principal.name, self._clock.wall_us(), told)
        self._gate.pass_event(principal, parsed.event, durable=True)
        return parsed

    async def _refused(self, principal: Principal, body: bytes, error: CourierError) -> web.Response:
        """A stream that is missing is the operator's to mend, and no reason for the plugin to let an event go."""
        if error.status >= 500 or isinstance(error, UnknownStream):
            return unavailable(error)
        if isinstance(error, OverQuota):
            return rejected(error)
        job = self._rejections.keep([self._rejection(principal, body, error)])
        if job is not None:
            with suppress(CourierError):  # the refusal holds, whether its receipt could be kept or not
                await committed(self._gate, (), job)
        return rejected(error)

    def _rejection(self, principal: Principal, body: bytes, error: CourierError) -> Rejection:
        facts = pixel.facts(body)
        key = facts.idempotency_key
        return Rejection(
            pixel.CONTRACT,
            principal.name,
            self._clock.wall_us(),
            pixel.word_of(error),
            error.message,
            body,
            source_event_id=key,
            event_id=facts.event_id,
            event_name=facts.event_name,
            schema_version=facts.schema_version,
            dedupe_key=None if key is None else pixel.dedupe_key(principal.name, key),
            last_transport_attempt=facts.attempt,
        )


async def _read(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge("the body is larger than server.maxBodyBytes allows") from None
