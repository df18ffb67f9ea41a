"""What every request passes: known path and method, known host, known origin."""

import json
import logging

import pytest

from broker.admission.auth import Authenticator
from broker.app import App
from broker.config import Auth, Server
from broker.errors import Forbidden
from broker.front.guard import Guard
from broker.limits import HOSTS_REMEMBERED_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import STREAM, body
from tests.support.raw import exchange
from tests.support.writer import stored

PATHS = ["livez", "readyz", "v1/enqueue", f"v1/subscribe?stream={STREAM}", "nowhere"]
FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:8787",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "notlocalhost",
    "[::2]",
    "10.0.0.1",
    "",
    "localhost@evil.example",
    "evil.example@localhost",
    "localhost/evil.example",
    "localhost#",
    "localhost?",
    "localhost:",
    "[",
]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unknown_path_is_not_found(client: Client, method: str) -> None:
    for path in ("", "v1", "v1/enqueue/", "V1/enqueue", "v1//enqueue", "livez/x", "%ff", "%00", "%F0%9F"):
        message = assert_error(await client.request(method, path), 404, "not_found")
        assert message.startswith("there is nothing at /")
        assert message.endswith("; see docs/reference/http.md")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "v1/enqueue", "POST"),
        ("PUT", "v1/enqueue", "POST"),
        ("DELETE", "v1/enqueue", "POST"),
        ("POST", "v1/subscribe", "GET"),
        ("POST", "livez", "GET"),
        ("POST", "readyz", "GET"),
        ("OPTIONS", "v1/enqueue", "POST"),
    ],
)
async def test_a_wrong_method_is_refused_with_those_that_are_right(
    client: Client, method: str, path: str, allowed: str
) -> None:
    answer = await client.request(method, path)
    message = assert_error(answer, 405, "invalid_request")
    assert answer.headers["Allow"] == allowed
    assert message == f"/{path} does not take {method}; it takes {allowed}"


async def test_a_path_that_is_not_utf8_is_answered_in_the_one_shape(app: App, caplog: pytest.LogCaptureFixture) -> None:
    answer = await exchange(app.server.port, b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.split(b"\r\n")[0].split()[1] in (b"400", b"404")
    assert "broker" not in {record.name.partition(".")[0] for record in caplog.records}


@pytest.mark.parametrize("path", PATHS)
async def test_a_foreign_host_is_forbidden(client: Client, path: str) -> None:
    for host in FOREIGN_HOSTS:
        message = assert_error(await client.get(path, {"Host": host}), 403, "forbidden")
        assert message == f"the host {host.lower()!r} is not served here; add it to server.allowedHosts if it should be"


async def test_the_names_of_this_machine_are_served(client: Client) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9999", "[::1]", "[::1]:80", "127.1.2.3"):
        assert (await client.get("livez", {"Host": host})).status == 200


async def test_an_event_for_a_foreign_host_is_not_stored(app: App, client: Client) -> None:
    assert_error(await client.post(body(), {"Host": "evil.example"}), 403, "forbidden")
    assert await stored(app) == []


async def test_configured_hosts_are_served_and_no_others(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"server": {"allowedHosts": ["courier.lan", "pi.lan:8787"]}})
    client = await connect(app.server.address)
    for host in ("courier.lan", "Courier.LAN:1234", "pi.lan:8787", "localhost"):
        assert (await client.get("livez", {"Host": host})).status == 200
    for host in ("pi.lan", "pi.lan:8788", "x.courier.lan"):
        assert_error(await client.get("livez", {"Host": host}), 403, "forbidden")


async def test_a_request_without_a_host_is_refused(app: App) -> None:
    answer = await exchange(app.server.port, b"GET /livez HTTP/1.0\r\n\r\n")
    assert b" 403 " in answer.split(b"\r\n")[0] or b" 400 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("path", PATHS)
async def test_a_foreign_origin_is_forbidden(app: App, client: Client, path: str) -> None:
    for origin in ("https://evil.example", "null", app.server.address, "http://localhost", ""):
        message = assert_error(await client.get(path, {"Origin": origin}), 403, "forbidden")
        assert message == f"pages of {origin!r} may not call this broker; see server.allowedOrigins"


async def test_an_event_of_a_foreign_page_is_not_stored(app: App, client: Client) -> None:
    assert_error(await client.post(body(), {"Origin": "https://evil.example"}), 403, "forbidden")
    assert await stored(app) == []


async def test_configured_origins_may_call_and_no_others(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"server": {"allowedOrigins": ["https://panel.lan", "http://panel.lan:3000"]}})
    client = await connect(app.server.address)
    for number, origin in enumerate(("https://panel.lan", "http://panel.lan:3000")):
        assert (await client.post(body(f"e-{number}"), {"Origin": origin})).status == 200
        async with client.subscribe(headers={"Origin": origin}) as subscriber:
            await subscriber.settled()
    for origin in ("http://panel.lan", "https://panel.lan:3000", "https://panel.lan/", "https://x.panel.lan"):
        assert_error(await client.get("livez", {"Origin": origin}), 403, "forbidden")


async def test_what_is_no_http_harms_nobody(app: App, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    for sent in (b"\x16\x03\x01\x02\x00", b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 1000):
        answer = await exchange(app.server.port, sent + b"\r\n\r\n")
        assert answer.split(b"\r\n")[0].endswith(b" 400 Bad Request")
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error["code"] == "invalid_request"
        assert error["message"].startswith("this is not valid HTTP: ")
    assert (await client.enqueue("e-1"))["seq"] == 1
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize(
    "headers",
    [
        b"Host: localhost\r\nHost: evil.example",
        b"Host: evil.example\r\nHost: localhost",
        b"Host: localhost\r\nHost: localhost",
    ],
)
async def test_a_request_with_two_hosts_is_refused(app: App, headers: bytes) -> None:
    answer = await exchange(app.server.port, b"GET /livez HTTP/1.1\r\n%b\r\nConnection: close\r\n\r\n" % headers)
    assert answer.split(b"\r\n")[0].endswith(b" 400 Bad Request")
    assert b"Duplicate 'Host' header found" in answer


async def test_an_origin_counts_whatever_its_case_and_of_several_each_must_be_allowed(start_app: StartApp) -> None:
    app = await start_app({"server": {"allowedOrigins": ["https://panel.lan"]}})
    for origins, status in [
        (("https://panel.lan",), b"200"),
        (("HTTPS://Panel.LAN",), b"200"),
        (("https://panel.lan", "https://evil.example"), b"403"),
        (("https://evil.example", "https://panel.lan"), b"403"),
    ]:
        lines = "".join(f"Origin: {origin}\r\n" for origin in origins).encode()
        sent = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n%bConnection: close\r\n\r\n" % lines
        assert (await exchange(app.server.port, sent)).split()[1] == status, origins


def test_hosts_that_are_served_are_remembered_up_to_a_bound_and_served_past_it() -> None:
    guard = Guard(Server(), Authenticator(Auth()))
    for port in range(1, HOSTS_REMEMBERED_MAX + 2):
        guard._check_host(f"localhost:{port}")
        assert len(guard._passed_hosts) == min(port, HOSTS_REMEMBERED_MAX)
    with pytest.raises(Forbidden):
        guard._check_host("evil.example")
    assert "evil.example" not in guard._passed_hosts
