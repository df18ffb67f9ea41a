"""`courier token new`: a token that is shown once, and the entry that lets its bearer in."""

import hashlib
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from broker.cli import exits, main
from broker.cli.token import PREFIX, nearest_scope
from broker.config import load
from tests.conftest import Connect, StartBroker
from tests.support.client import assert_error
from tests.support.events import STREAM, body

MARK = "# The token, shown this once; keep it secret: "


def token_new(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["token", "new", *arguments], prog_name="courier")


def printed(*arguments: str) -> tuple[str, str]:
    """The token, and all that was printed."""
    result = token_new(*arguments)
    assert result.exit_code == 0, result.output
    first = result.output.splitlines()[0]
    assert first.startswith(MARK)
    return first.removeprefix(MARK), result.output


async def test_the_printed_entry_lets_the_bearer_of_the_printed_token_in(
    broker_process: StartBroker, connect: Connect
) -> None:
    secret, text = printed("game-server", "--scope", "streams:agents/**:enqueue", "--rate", "0.5", "--burst", "1")
    broker = broker_process(config={"auth": {"tokens": yaml.safe_load(text)}})
    client = await connect(broker.url)
    bearer = {"Authorization": f"Bearer {secret}"}
    assert (await client.post(body("e-1"), bearer)).status == 200
    assert (await client.post(body("e-2"), bearer)).status == 429
    answer = await client.get(f"v1/subscribe?stream={STREAM}", bearer)
    assert "'game-server' lacks the scope" in assert_error(answer, 403, "forbidden")
    assert_error(await client.post(body("e-2"), {"Authorization": f"Bearer {secret}x"}), 401, "unauthorized")
    assert secret not in "\n".join(broker.stderr_lines)


def test_what_is_printed_is_what_a_file_takes(tmp_path: Path) -> None:
    scopes = [
        "streams:a/*:enqueue",
        "streams:*:subscribe",
        "views:*:read",
        "devices:pi/*",
        "admin:*",
    ]
    secret, text = printed('a "name" # é', *(part for scope in scopes for part in ("--scope", scope)))
    file = tmp_path / "courier.yaml"
    file.write_text("auth:\n  tokens:\n" + "".join(f"    {line}\n" for line in text.splitlines()))
    (token,) = load(file, {}, {}).config.auth.tokens
    assert (token.name, list(token.scopes), token.rate, token.token) == ('a "name" # é', scopes, None, None)
    assert token.token_hash == f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}"
    assert text.count(secret) == 1


def test_as_json_it_is_one_line() -> None:
    result = token_new("operator", "--scope", "admin:*", "--json")
    (line,) = result.output.splitlines()
    made = json.loads(line)
    assert made.keys() == {"name", "token", "tokenHash", "scopes"}
    assert (made["name"], made["scopes"]) == ("operator", ["admin:*"])
    assert made["tokenHash"] == f"sha256:{hashlib.sha256(made['token'].encode()).hexdigest()}"


def test_no_two_tokens_are_alike_and_each_has_256_bits() -> None:
    tokens = {printed("p", "--scope", "admin:*")[0] for _ in range(20)}
    assert len(tokens) == 20
    for token in tokens:
        assert token.startswith(PREFIX)
        assert len(token.removeprefix(PREFIX)) * 6 >= 256


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("stream:agents/Jen:enqueue", "streams:agents/Jen:enqueue"),
        ("streams:agents/Jen:publish", "streams:agents/Jen:enqueue"),
        ("streams:agents/Jen:Read", "streams:agents/Jen:subscribe"),
        ("streams:agents/Jen:subscrib", "streams:agents/Jen:subscribe"),
        ("streams:/agents/:enqueue", "streams:agents:enqueue"),
        ("streams:agents/J*:enqueue", "streams:agents/*:enqueue"),
        ("streams:agents", "streams:agents:enqueue"),
        ("enqueue", "streams:*:enqueue"),
        ("subscribe", "streams:*:subscribe"),
        ("view:latest", "views:latest:read"),
        ("views:latest:write", "views:latest:read"),
        ("device:pi/*", "devices:pi/*"),
        ("admin", "admin:*"),
        ("metrics", "metrics:read"),
        ("metric:read", "metrics:read"),
        ("admin:all", "admin:*"),
        ("", None),
        ("everything:please", None),
        ("streams:a b:enqueue", None),
    ],
)
def test_a_wrong_scope_gets_the_nearest_right_one(wrong: str, meant: str | None) -> None:
    assert nearest_scope(wrong) == meant
    result = token_new("p", "--scope", "admin:*", "--scope", wrong)
    assert result.exit_code == exits.USAGE
    told = f'did you mean "{meant}"?' if meant else ""
    assert told in " ".join(result.output.split())
    assert PREFIX not in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["p"],
        ["--scope", "admin:*"],
        ["with:colon", "--scope", "admin:*"],
        ["", "--scope", "admin:*"],
        ["p" * 129, "--scope", "admin:*"],
        ["p", "--scope", "admin:*", "--rate", "1"],
        ["p", "--scope", "admin:*", "--burst", "1"],
        ["p", "--scope", "admin:*", "--rate", "0", "--burst", "1"],
        ["p", "--scope", "admin:*", "--rate", "nan", "--burst", "1"],
        ["p", "--scope", "admin:*", "--rate", "1000001", "--burst", "1"],
        ["p", "--scope", "admin:*", "--rate", "1", "--burst", "0"],
        ["p", "--scope", "admin:*", "--rate", "1", "--burst", "1000001"],
    ],
)
def test_what_no_configuration_would_take_is_refused(arguments: list[str]) -> None:
    result = token_new(*arguments)
    assert result.exit_code == exits.USAGE
    assert PREFIX not in result.output


@pytest.mark.parametrize(
    "arguments", [["--rate", "0.001", "--burst", "1"], ["--rate", "1000000", "--burst", "1000000"]]
)
def test_rates_at_their_bounds_are_taken(arguments: list[str]) -> None:
    assert token_new("p" * 128, "--scope", "admin:*", *arguments).exit_code == 0
