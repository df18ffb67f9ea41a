"""Who may call over gRPC: tokens, devices, revocation, and where it listens."""

import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import msgspec
import pytest

from broker.app import App
from broker.config import Auth
from broker.errors import ConfigError
from tests.conftest import StartApp
from tests.support.skyra import raw
from tests.support.skyra_grpc import ON, GrpcClient, dial, status_of
from tests.support.writer import stored

FLEET = {"token": "fleet-secret", "name": "fleet", "scopes": ["devices:pi-livingroom-01"]}
OTHER = {"token": "other-secret", "name": "other", "scopes": ["devices:camera"]}


pytestmark = pytest.mark.usefixtures("grpc_is_let_go_of")


@pytest.fixture
async def app(start_app: StartApp) -> App:
    return await start_app({**ON, "auth": {"tokens": [FLEET, OTHER]}})


@pytest.fixture
async def device(app: App) -> AsyncIterator[GrpcClient]:
    assert app.grpc is not None
    async with dial(app.grpc.address) as client:
        yield client


def tokens(*given: dict[str, Any]) -> Auth:
    return msgspec.convert({"tokens": given}, Auth)


@pytest.mark.parametrize("token", [None, "wrong", "fleet-secret "])
async def test_without_a_token_that_is_known_a_call_is_unauthenticated_and_stores_nothing(
    app: App, device: GrpcClient, token: str | None
) -> None:
    assert await status_of(device.store(raw("a"), token=token)) is grpc.StatusCode.UNAUTHENTICATED
    async with device.ingress(token) as stream:
        assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED
    assert await stored(app) == []


async def test_a_token_speaks_for_its_own_devices_only(app: App, device: GrpcClient) -> None:
    (answer,) = await device.store(raw("a"), token="fleet-secret")
    assert answer["status"] == "stored"
    (answer,) = await device.store(raw("b"), token="other-secret")
    assert (answer["status"], answer["error"]["code"]) == ("rejected", "forbidden")
    async with device.ingress("other-secret") as stream:
        await stream.send(raw("c"))
        assert [each["status"] for each in await stream.receive()] == ["rejected"]
    assert len(await stored(app)) == 1


async def test_a_token_that_is_revoked_ends_its_streams_and_no_others(app: App, device: GrpcClient) -> None:
    async with device.ingress("fleet-secret") as fleet, device.ingress("other-secret") as other:
        for stream in (fleet, other):
            await stream.send(raw("a"))
            await stream.receive()
        assert await app.replace_tokens(tokens(OTHER)) == 1
        assert await fleet.code() is grpc.StatusCode.UNAUTHENTICATED
        await other.send(raw("b"))
        assert len(await other.receive()) == 1


async def test_a_token_whose_scopes_changed_ends_its_streams_as_not_permitted(app: App, device: GrpcClient) -> None:
    async with device.ingress("fleet-secret") as stream:
        await stream.send(raw("a"))
        await stream.receive()
        assert await app.replace_tokens(tokens({**FLEET, "scopes": ["devices:camera"]}, OTHER)) == 1
        assert await stream.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_without_tokens_it_listens_on_loopback_only(start_app: StartApp) -> None:
    with pytest.raises(ConfigError, match=r"grpc\.host: 0\.0\.0\.0 can be reached from other machines"):
        await start_app({"grpc": {"port": 0, "host": "0.0.0.0"}})


async def test_where_grpc_is_not_installed_the_start_is_refused_with_what_to_install(
    start_app: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grpc", "broker.front.grpc_ingress", "broker.front.grpc_server", "broker.front.grpc_codes"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"grpc\.port: .*pip install 'courier-broker\[grpc\]'"):
        await start_app(ON)


async def test_a_broker_that_is_not_asked_for_it_has_no_grpc(start_app: StartApp) -> None:
    assert (await start_app()).grpc is None
