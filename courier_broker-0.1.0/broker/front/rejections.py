"""Receipts of what was refused for good, as far as they are kept (001: a receipt is `processed` or `rejected`)."""

from typing import Annotated, Literal

from aiohttp import web
from msgspec import Meta

from broker.admission.auth import Principal
from broker.errors import InvalidRequest
from broker.front.guard import PRINCIPAL
from broker.front.requests import Query
from broker.front.shapes import Shape, shape_response, shown_time
from broker.journal.reader import ReaderPool
from broker.journal.rejections import KeptRejection, kept_of, kept_page
from broker.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, SEQ_MAX

REJECTED = "rejected"


class RejectedReceipt(Shape):
    """What was refused, and why; nothing of it is in a stream. `body` has the beginning of what came."""

    number: Annotated[int, Meta(ge=1)]
    source: str
    id: str | None
    contract: str
    state: Literal["rejected"]
    code: str
    message: str
    received_at: str
    event_id: str | None
    event_name: str | None
    schema_version: str | None
    body: str | None


class RejectedPage(Shape):
    """Refusals in the order in which they came; `next` is the `after` of the next page."""

    receipts: list[RejectedReceipt]
    next: int | None


class RejectedReceipts:
    """The endpoint. Operators see all of it, everybody else what became of their own events."""

    def __init__(self, readers: ReaderPool) -> None:
        self._readers = readers

    async def list_receipts(self, request: web.Request) -> web.Response:
        """`GET /v1/receipts?status=rejected`."""
        query = Query(request, "status", "source", "after", "limit")
        if query.text("status") != REJECTED:
            raise InvalidRequest("status must be rejected; of what was accepted, the streams have the lists")
        principal: Principal = request[PRINCIPAL]
        source = query.text("source")
        if not principal.may_admin():
            if source not in (None, principal.name):
                principal.check_admin()
            source = principal.name
        after = query.integer("after", 0, 0, SEQ_MAX)
        limit = query.integer("limit", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX)
        found, following = await self._readers.run(kept_page, source, after, limit)
        return shape_response(RejectedPage(receipts=[_shown(each) for each in found], next=following))


async def rejected_receipt(
    readers: ReaderPool, principal: Principal, source: str, event_id: str
) -> RejectedReceipt | None:
    """The receipt of an identity that was refused, if it is kept and the caller may see it."""
    if source != principal.name and not principal.may_admin():
        return None
    found = await readers.run(kept_of, source, event_id)
    return None if found is None else _shown(found)


def _shown(kept: KeptRejection) -> RejectedReceipt:
    return RejectedReceipt(
        number=kept.number,
        source=kept.source_system,
        id=kept.source_event_id,
        contract=kept.contract,
        state="rejected",
        code=kept.code,
        message=kept.message,
        received_at=shown_time(kept.received_at),
        event_id=kept.event_id,
        event_name=kept.event_name,
        schema_version=kept.schema_version,
        body=None if kept.body is None else kept.body.decode("utf-8", "replace"),
    )
