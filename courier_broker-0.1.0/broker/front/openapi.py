"""The OpenAPI document, generated from the table of endpoints, the wire structs and the tree of errors."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import msgspec

from broker.admission.auth import API_KEY_HEADER
from broker.errors import ConfigError, CourierError
from broker.front import shapes
from broker.front.endpoint import Endpoint, Many
from broker.front.endpoints import ENDPOINTS
from broker.front.requests import JSON, NDJSON

_REFERENCE = "#/components/schemas/{name}"
_LINES = {"type": "string", "contentMediaType": NDJSON}


def error_kinds(kind: type[CourierError] = CourierError) -> Iterator[type[CourierError]]:
    """Every error that can be on the wire."""
    if kind is not ConfigError:
        yield kind
        for child in kind.__subclasses__():
            yield from error_kinds(child)


def wire_types() -> list[Any]:
    """Everything that a body or an answer can be, each once."""
    found: dict[Any, None] = {shapes.Error: None}
    for endpoint in ENDPOINTS:
        for wire in (*endpoint.bodies.values(), *endpoint.answers.values()):
            found |= dict.fromkeys(_types(wire))
    return list(found)


def _types(wire: Any) -> Iterator[Any]:
    """The types that a body or an answer is made of."""
    if isinstance(wire, Many):
        wire = wire.of
    if not isinstance(wire, tuple):
        yield wire
        return
    for each in wire:
        yield from _types(each)


def _schema(wire: Any, by_type: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """The schema of a body or an answer."""
    if isinstance(wire, Many):
        return {"type": "array", "items": _schema(wire.of, by_type)}
    if isinstance(wire, tuple):
        return {"anyOf": [_schema(each, by_type) for each in wire]}
    return by_type[wire]


def info(title: str) -> dict[str, Any]:
    """What both documents begin with."""
    return {"title": title, "version": version("courier-broker"), "license": {"name": "MIT", "identifier": "MIT"}}


def schemas() -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """The schema of each wire type, and the components that these refer to."""
    types = wire_types()
    described = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    found, components = msgspec.json.decode(msgspec.json.encode(described))  # the tuple of a default becomes a list
    codes = sorted(kind.code for kind in error_kinds())
    components["ErrorDetail"]["properties"]["code"]["enum"] = codes
    return dict(zip(types, found, strict=True)), components


def openapi(api_key_header: str = API_KEY_HEADER) -> dict[str, Any]:
    """The document, version 3.1."""
    by_type, components = schemas()
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        if not endpoint.is_socket:
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, by_type)
    return {
        "openapi": "3.1.0",
        "info": info("Courier over HTTP"),
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Error": _refusal()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": api_key_header},
            },
        },
    }


def _operation(endpoint: Endpoint, by_type: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    answers: dict[str, Any] = {"200": {"description": "Done", "content": _content(endpoint.answers, by_type)}}
    if endpoint.not_ready is not None:
        answers["503"] = {"description": "Not ready", "content": _content({JSON: endpoint.not_ready}, by_type)}
    answers["default"] = {"$ref": "#/components/responses/Error"}
    operation: dict[str, Any] = {"operationId": endpoint.name, "summary": endpoint.summary, "responses": answers}
    if endpoint.needs_token:
        # The empty one: without configured tokens, a broker on loopback asks for none.
        operation["security"] = [{"bearer": []}, {"apiKey": []}, {}]
    if endpoint.scope is not None:
        operation["description"] = f"A token needs the scope `{endpoint.scope}`."
    if endpoint.parameters:
        operation["parameters"] = [
            {
                "name": parameter.name,
                "in": parameter.place,
                "required": parameter.place == "path",
                "description": parameter.meaning,
                "schema": parameter.schema,
            }
            | ({} if parameter.example is None else {"example": parameter.example})
            for parameter in endpoint.parameters
        ]
    if endpoint.bodies:
        content = _content(endpoint.bodies, by_type)
        if endpoint.example is not None:
            content[next(iter(endpoint.bodies))]["example"] = endpoint.example
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _content(types: dict[str, Any], by_type: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """Content by its type. A stream of lines has no schema in OpenAPI 3.1; that of one line stands beside it."""
    content: dict[str, Any] = {}
    for kind, wire in types.items():
        if kind != NDJSON:
            content[kind] = {"schema": _schema(wire, by_type)}
        else:
            lines = wire if isinstance(wire, tuple) else (wire,)
            content[kind] = {"schema": _LINES, "x-line-schema": _schema(lines, by_type)}
    return content


def _refusal() -> dict[str, Any]:
    statuses: dict[int, list[str]] = {}
    for kind in error_kinds():
        statuses.setdefault(kind.status, []).append(kind.code)
    lines = [f"{status}: {', '.join(sorted(codes))}" for status, codes in sorted(statuses.items())]
    return {
        "description": "A refusal. The status and its codes: " + "; ".join(lines),
        "headers": {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds, if a retry can help"}},
        "content": {JSON: {"schema": {"$ref": _REFERENCE.format(name="Error")}}},
    }
