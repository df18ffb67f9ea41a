"""`/openapi.json` and `/asyncapi.json` say what the running broker has, no more and no less."""

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from broker.app import App
from broker.front.asyncapi import Ack, Credit, Extend, Nack, asyncapi
from broker.front.control import parse
from broker.front.openapi import openapi
from broker.limits import ARRAY_EVENTS_MAX, REQUESTS_PER_FRAME_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error


def described() -> set[tuple[str, str]]:
    """The endpoints of both documents."""
    over_http = {(method.upper(), path) for path, methods in openapi()["paths"].items() for method in methods}
    return over_http | {("GET", channel["address"]) for channel in asyncapi()["channels"].values()}


async def test_every_route_is_in_one_of_the_documents_and_nothing_else_is(app: App) -> None:
    routes = app.server._app.router.routes()
    assert {(route.method, route.resource.canonical) for route in routes if route.resource is not None} == described()


def test_the_openapi_document_is_valid() -> None:
    document = msgspec.json.decode(msgspec.json.encode(openapi()))
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_every_reference_of_the_asyncapi_document_leads_somewhere() -> None:
    document = asyncapi()
    text = msgspec.json.encode(document).decode()
    found = {part.partition('"')[0] for part in text.split('"$ref":"#/')[1:]}
    assert len(found) > 15
    for reference in found:
        place = document
        for step in reference.split("/"):
            assert step in place, reference
            place = place[step]


def test_every_frame_of_the_asyncapi_document_is_one_that_a_subscriber_may_send() -> None:
    for frame in (
        Credit(credit=1),
        Ack(ack="e"),
        Ack(ack=["e", 7]),
        Ack(ack=7, attempt=2),
        Nack(nack="e", delay_ms=5),
        Extend(extend="e", lease_ms=100),
    ):
        assert parse(msgspec.json.encode(frame).decode())


@pytest.mark.parametrize(
    ("channel", "one", "bound"),
    [("publish", "EnqueueRequest", REQUESTS_PER_FRAME_MAX), ("ingress", "DeviceEvent", ARRAY_EVENTS_MAX)],
)
def test_the_asyncapi_document_has_the_array_that_a_producer_may_send(channel: str, one: str, bound: int) -> None:
    document = asyncapi()
    payload = document["components"]["messages"][f"{one}s"]["payload"]
    assert (payload["type"], payload["minItems"], payload["maxItems"]) == ("array", 1, bound)
    assert payload["items"] == document["components"]["messages"][one]["payload"]
    received = document["operations"][f"{channel}.receive"]["messages"]
    assert {"$ref": f"#/channels/{channel}/messages/{one}s"} in received


def test_the_documents_name_every_error_code_and_the_version() -> None:
    document = openapi()
    codes = document["components"]["schemas"]["ErrorDetail"]["properties"]["code"]["enum"]
    assert {"internal", "invalid_envelope", "disk_full", "over_quota"} <= set(codes)
    assert "config_invalid" not in codes
    assert document["info"]["version"] == asyncapi()["info"]["version"]


async def test_the_documents_are_served_as_they_are_generated(client: Client) -> None:
    assert (await client.get("openapi.json")).body == openapi()
    assert (await client.get("asyncapi.json")).body == asyncapi()


async def test_the_documents_ask_for_a_token_and_any_will_do(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"auth": {"tokens": [{"token": "t", "scopes": ["streams:a:enqueue"]}]}})
    client = await connect(app.server.address)
    for path in ("openapi.json", "asyncapi.json"):
        assert_error(await client.get(path), 401, "unauthorized")
        assert (await client.get(path, {"Authorization": "Bearer t"})).status == 200
