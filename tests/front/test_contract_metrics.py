"""What `/metrics` says of the other contracts is what was done."""

import json
from pathlib import Path

import apsw

from broker.app import App
from broker.clock import ManualClock
from broker.contracts.inbound import InboundEvent
from broker.limits import REJECTIONS_BURST_MAX
from tests.conftest import Connect, StartApp
from tests.support import pixel, skyra
from tests.support.client import JSON, Client
from tests.support.metrics import scrape

EVENT = "pixel_control.lifecycle.maniaplanet_beginmatch"


async def test_refusals_are_counted_by_whether_they_were_kept(start_app: StartApp, connect: Connect) -> None:
    app = await start_app(clock=ManualClock())
    client = await connect(app.server.address)
    found = await scrape(client)
    assert [found("courier_rejections_total", receipt=each) for each in ("kept", "dropped")] == [0, 0]
    body = b"[%b]" % b",".join([b"{}"] * (REJECTIONS_BURST_MAX + 2))
    assert (await client.request("POST", "v1/events", data=body, headers=JSON)).status == 200
    found = await scrape(client)
    assert [found("courier_rejections_total", receipt=each) for each in ("kept", "dropped")] == [
        REJECTIONS_BURST_MAX,
        2,
    ]


async def test_refusals_in_the_words_of_a_contract_are_errors_that_were_sent(client: Client) -> None:
    async def sent() -> float:
        found = await scrape(client)
        return sum(number for (name, _), number in found.samples.items() if name == "courier_refusals_total")

    before = await sent()
    assert (await pixel.post(client, b"{}")).body["ack"]["status"] == "rejected"
    assert await sent() == before + 1
    body = b"[%b,{},{}]" % skyra.raw()
    await client.request("POST", "v1/events", data=body, headers=JSON)
    assert await sent() == before + 3
    await client.request("POST", "v1/events", data=b"{}", headers=JSON)
    assert await sent() == before + 4
    async with client.session.ws_connect("v1/ingress") as socket:
        await socket.receive_str()
        await socket.send_str("{}")
        await socket.receive_str()
        assert await sent() == before + 5
        found = await scrape(client)
        assert found("courier_websockets", endpoint="ingress") == 1


async def test_events_that_an_effect_kept_out_are_counted(app: App, client: Client) -> None:
    @app.effect("*")
    def fail(_cursor: apsw.Cursor, _event: InboundEvent) -> None:
        raise ValueError("never")

    assert (await scrape(client))("courier_effect_failures_total") == 0
    pixel.assert_unavailable(await pixel.post(client, pixel.numbered(1)))
    assert (await scrape(client))("courier_effect_failures_total") == 1


async def test_payloads_that_break_their_schema_are_counted_once(
    start_app: StartApp, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "schemas/payloads-2026-02-19.1"
    folder.mkdir(parents=True)
    (folder / f"{EVENT}.schema.json").write_text(json.dumps({"required": ["map"]}))
    app = await start_app({"pixel": {"schemas": str(tmp_path / "schemas")}})
    client = await connect(app.server.address)
    for expected in ("processed", "duplicate"):
        assert await pixel.disposition(client, pixel.numbered(1)) == expected
    assert (await scrape(client))("courier_pixel_payload_violations_total") == 1
