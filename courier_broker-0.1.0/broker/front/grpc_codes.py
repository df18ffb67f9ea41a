"""Errors and answers as gRPC tells them: the one place where an error becomes a status code or a message."""

from http import HTTPStatus
from typing import Any

import grpc
import orjson

from broker.errors import CourierError
from broker.front.replies import REFUSALS
from broker.front.skyra_v1 import skyra_pb2

_CODES = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT: grpc.StatusCode.ABORTED,
    HTTPStatus.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    HTTPStatus.INSUFFICIENT_STORAGE: grpc.StatusCode.UNAVAILABLE,
}

_STATUS = {
    "stored": skyra_pb2.Ack.STORED,
    "rejected": skyra_pb2.Ack.REJECTED,
    "error": skyra_pb2.Ack.ERROR,
}
_ERROR_FIELDS = ("code", "message", "retryable", "retry_after_seconds")


def status_code(error: CourierError) -> grpc.StatusCode:
    """The status with which an error ends a call."""
    return _CODES.get(HTTPStatus(error.status), grpc.StatusCode.INTERNAL)


async def abort(context: "grpc.aio.ServicerContext[Any, Any]", error: CourierError) -> None:
    """End a call with an error. Its code, and when a retry can help, are in the trailing metadata."""
    REFUSALS[error.code] += 1
    trailing = [("courier-error", error.code)]
    if error.retryable:
        trailing.append(("retry-after", str(error.retry_after_seconds)))
    await context.abort(status_code(error), error.message, tuple(trailing))


def ack_message(answer: dict[str, Any]) -> skyra_pb2.Ack:
    """The answer to one envelope as a message, with the same words."""
    message = skyra_pb2.Ack(
        event_id=answer.get("event_id", ""),
        ack_ts=answer.get("ack_ts", ""),
        status=_STATUS[answer["status"]],
        duplicate=answer.get("duplicate", False),
        payload_conflict=answer.get("payload_conflict", False),
    )
    if (error := answer.get("error")) is not None:
        detail = {key: value for key, value in error.items() if key not in _ERROR_FIELDS}
        message.error.CopyFrom(
            skyra_pb2.Error(
                **{key: error[key] for key in _ERROR_FIELDS},
                detail_json=orjson.dumps(detail).decode() if detail else "",
            )
        )
    return message


def ack_bytes(answer: dict[str, Any]) -> bytes:
    """The same as it goes over the line."""
    return ack_message(answer).SerializeToString()
