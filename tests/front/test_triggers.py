"""`/v1/triggers`: the rules, for operators."""

import json
from typing import Any

import pytest

from broker.app import App
from broker.config import parse_trigger
from broker.limits import TRIGGER_RULE_BYTES_MAX, TRIGGERS_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import JSON, Answer, Client, assert_error
from tests.support.events import STREAM, envelope
from tests.support.writer import stored

RULE = {
    "when": {"to": STREAM, "type": "sprint.*"},
    "do": [{"action": "notify", "to": "out", "payload": {"ref": "${env.id}", "n": "${env.payload.nope}"}}],
}
ZERO = {"matched": 0, "ran": 0, "heldBack": 0, "failed": 0, "missingFields": 0, "lastError": None, "lastErrorAt": None}


async def put(client: Client, rule_id: str, rule: Any, **options: Any) -> Answer:
    return await client.request("PUT", f"v1/triggers/{rule_id}", data=json.dumps(rule), headers=JSON, **options)


async def test_a_rule_is_put_shown_listed_and_deleted(client: Client) -> None:
    assert (await client.get("v1/triggers")).body == {"triggers": [], "cooldownsForgotten": 0}
    answer = await put(client, "b", RULE)
    shown = {"rule": {"id": "b", **RULE}, "origin": "api", "counts": ZERO}
    assert (answer.status, answer.body) == (200, shown)
    assert (await client.get("v1/triggers/b")).body == shown
    await put(client, "a", RULE)
    listed = (await client.get("v1/triggers")).body["triggers"]
    assert [each["rule"]["id"] for each in listed] == ["a", "b"]
    assert (await client.request("DELETE", "v1/triggers/b")).body == {"id": "b", "deleted": True}
    assert_error(await client.get("v1/triggers/b"), 404, "not_found")
    message = assert_error(await client.request("DELETE", "v1/triggers/b"), 404, "not_found")
    assert message == "there is no trigger 'b'"


async def test_a_rule_is_in_force_when_it_is_answered_and_until_it_is_deleted(client: Client, app: App) -> None:
    await client.enqueue("before")
    await put(client, "r", RULE)
    await client.enqueue("during")
    await put(client, "r", RULE | {"when": {"type": "other"}})
    await client.enqueue("not meant")
    await client.request("DELETE", "v1/triggers/r")
    await client.enqueue("after", type="other")
    found = await stored(app, "envelope", "stream = 'out'")
    assert [json.loads(each)["payload"]["ref"] for each in found] == ["during"]


async def test_the_list_says_what_each_rule_has_done(start_app: StartApp, connect: Connect) -> None:
    failing = {"id": "failing", "when": {"to": STREAM}, "do": [{"action": "notify", "to": "x", "type": "${env.no}"}]}
    resting = {"id": "r", **RULE, "limits": {"cooldownMs": 60_000}}
    app = await start_app({"triggers": [failing, resting]})
    client = await connect(app.server.address)
    await client.enqueue_all("e-1", "e-1", "e-2")
    first, second = (await client.get("v1/triggers")).body["triggers"]
    assert (first["origin"], first["rule"]) == ("config", failing)
    counts = first["counts"]
    assert counts.pop("lastErrorAt").endswith("Z")
    assert counts.pop("lastError") == "do[0]: envelope: Expected `str`, got `null` - at `$.type` (event 'e-2')"
    assert counts == {"matched": 2, "ran": 0, "heldBack": 0, "failed": 2, "missingFields": 2}
    assert second["counts"] == ZERO | {"matched": 2, "ran": 1, "heldBack": 1, "missingFields": 1}


async def test_a_rule_of_the_configuration_cannot_be_changed(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"triggers": [{"id": "r", **RULE}]})
    client = await connect(app.server.address)
    for answer in (await put(client, "r", RULE), await client.request("DELETE", "v1/triggers/r")):
        message = assert_error(answer, 409, "read_only")
        assert message == "trigger 'r' comes from the configuration; change it there, and restart the broker"


@pytest.mark.parametrize(
    ("rule", "problems"),
    [
        (RULE | {"do": []}, ["do: expected a list with at least one entry, found an empty list"]),
        (RULE | {"whem": {}}, ["whem: unknown key; did you mean when?"]),
        ({"when": {"tp": 1, "tags": [""]}, "do": [{"action": "notify"}]}, [
            "when.tp: unknown key; did you mean type?",
            'when.tags[0]: expected a tag, found "": it is empty',
            "do[0].to: missing; notify needs the name of a stream",
        ]),
        (RULE | {"do": [{"action": "route", "to": "a/*"}]}, [
            'do[0].to: expected the name of a stream, found "a/*": segment 2 has a character outside A-Z a-z 0-9 . _ -'
        ]),
        (RULE | {"limits": {"cooldownMs": -1}}, [
            "limits.cooldownMs: expected an integer between 0 and 86400000, found -1"
        ]),
        ([], ["expected a mapping, found an empty list"]),
        (7, ["expected a mapping, found 7"]),
    ],
)  # fmt: skip
async def test_a_rule_that_cannot_be_used_is_refused_with_the_key_of_each_problem(
    client: Client, rule: Any, problems: list[str]
) -> None:
    message = assert_error(await put(client, "r", rule), 400, "invalid_request", problems=problems)
    assert message.splitlines() == problems
    assert (await client.get("v1/triggers")).body == {"triggers": [], "cooldownsForgotten": 0}


async def test_the_id_in_the_body_must_be_that_in_the_path(client: Client) -> None:
    assert (await put(client, "r", {"id": "r", **RULE})).status == 200
    message = assert_error(await put(client, "r", {"id": "s", **RULE}), 400, "invalid_request")
    assert message == "id: it must be the id in the path, or be left out"
    assert (await put(client, "test", RULE)).status == 200
    assert (await client.get("v1/triggers/test")).body["rule"]["id"] == "test"
    assert (await put(client, "a%2Fb%20c", RULE)).body["rule"]["id"] == "a/b c"
    assert (await client.get("v1/triggers/a%2Fb%20c")).status == 200


async def test_what_is_no_rule_at_all_is_refused(client: Client) -> None:
    message = assert_error(
        await client.request("PUT", "v1/triggers/r", data=b"{", headers=JSON), 400, "invalid_request"
    )
    assert message.startswith("the body: ")
    answer = await client.request("PUT", "v1/triggers/r", data=b"{}", headers={"Content-Type": "text/plain"})
    assert_error(answer, 415, "unsupported_content_type")


async def test_a_rule_may_be_as_long_as_the_bound_and_no_longer(client: Client) -> None:
    def rule(payload: str) -> Any:
        return {"id": "r", "when": {}, "do": [{"action": "notify", "to": "s", "payload": payload}]}

    room = TRIGGER_RULE_BYTES_MAX - len(json.dumps(rule(""), separators=(",", ":")))
    assert (await put(client, "r", rule("x" * (room - 1)))).status == 200
    assert (await put(client, "r", rule("x" * room))).status == 200
    assert_error(await put(client, "r", rule("x" * (room + 1))), 413, "too_large")


async def test_there_are_so_many_rules_and_no_more(client: Client, app: App) -> None:
    for number in range(TRIGGERS_MAX - 1):
        app.triggers.rules.put(parse_trigger({"id": f"r-{number:04}", **RULE}))
    assert (await put(client, "last", RULE)).status == 200
    message = assert_error(await put(client, "one too many", RULE), 400, "invalid_request")
    assert message == f"there are {TRIGGERS_MAX} triggers already; delete one first"
    assert (await put(client, "last", RULE | {"when": {}})).status == 200


async def test_rules_survive_a_restart(start_app: StartApp, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    app = await start_app()
    client = await connect(app.server.address)
    limits_ = {"cooldownMs": 10, "cooldownKey": "${env.from}"}
    for rule_id in ("kept", "shadowed", "deleted"):
        await put(client, rule_id, RULE | {"limits": limits_})
    await client.request("DELETE", "v1/triggers/deleted")
    await app.journal.execute(
        lambda connection: connection.execute(
            "INSERT INTO trigger_rules VALUES ('broken', '{\"when\": 5}', 1)"
        ).fetchall()
    )
    await app.drain()
    configured = {"id": "shadowed", "when": {}, "do": [{"action": "route", "to": "s"}]}
    app = await start_app({"triggers": [configured]})
    client = await connect(app.server.address)
    listed = (await client.get("v1/triggers")).body["triggers"]
    assert [(each["rule"], each["origin"]) for each in listed] == [
        (configured, "config"),
        ({"id": "kept", **RULE, "limits": limits_}, "api"),
    ]
    assert "trigger broken, which was added over the API, cannot be used: " in caplog.text
    assert "trigger shadowed was added over the API, but the configuration has one too, which wins" in caplog.text
    await client.enqueue("e-1", **{"from": "jen"})
    assert len(await stored(app, where="source_system = 'trigger:kept'")) > 0


async def test_only_operators_may_see_and_change_rules(start_app: StartApp, connect: Connect) -> None:
    tokens = [
        {"token": "user", "name": "user", "scopes": ["streams:*:enqueue", "streams:*:subscribe"]},
        {"token": "admin", "scopes": ["admin:*"]},
    ]
    app = await start_app({"auth": {"tokens": tokens}})
    user = await connect(app.server.address, headers={"Authorization": "Bearer user"})
    requests = [("GET", "v1/triggers"), ("GET", "v1/triggers/r"), ("PUT", "v1/triggers/r"), ("DELETE", "v1/triggers/r")]
    for method, path in [*requests, ("POST", "v1/triggers/test")]:
        message = assert_error(await user.request(method, path, headers=JSON), 403, "forbidden")
        assert message == "the token 'user' lacks the scope admin:*"
    admin = await connect(app.server.address, headers={"Authorization": "Bearer admin"})
    assert (await put(admin, "r", RULE)).status == 200


# The dry run.


async def tried(client: Client, **fields: Any) -> Any:
    data = json.dumps({"envelope": envelope("e-1", **fields)})
    answer = await client.request("POST", "v1/triggers/test", data=data, headers=JSON)
    assert answer.status == 200, answer
    return answer.body


async def test_a_dry_run_says_what_would_happen_and_does_nothing(client: Client, app: App) -> None:
    await put(client, "enrich", {"when": {"to": STREAM}, "do": [{"action": "enrich", "tags": ["seen"]}]})
    await put(client, "other", {"when": {"to": "other/*"}, "do": [{"action": "route", "to": "s"}]})
    await put(client, "r", RULE | {"limits": {"cooldownMs": 60_000}})
    await put(client, "chain", {"when": {"to": "out"}, "do": [{"action": "notify", "to": "further"}]})
    for _ in range(2):
        found = await tried(client)
        by_id = {rule.pop("id"): rule for rule in found["rules"]}
        usual = {"origin": "api", "matches": True, "miss": None, "heldBack": False, "errors": [], "missingFields": 0}
        assert by_id["enrich"] == usual
        assert by_id["r"] == usual | {"missingFields": 1}
        miss = "to is 'agents/Jen/inbox', and when.to is 'other/*'"
        assert by_id["other"] == usual | {"matches": False, "miss": miss}
        assert found["envelope"] == envelope("e-1") | {"tags": ["seen"]}
        assert [(each["rule"], each["action"], each["to"], each["hops"]) for each in found["emitted"]] == [
            ("r", 0, "out", 1), ("chain", 0, "further", 2),
        ]  # fmt: skip
        assert found["emitted"][0]["envelope"]["payload"] == {"ref": "e-1", "n": None}
        assert found["furtherErrors"] == []
    assert await stored(app) == []
    assert app.registry.names() == []
    assert app.triggers.rules.find("r").tally.matched == 0
    await client.enqueue("e-1")
    assert {rule["id"]: rule["heldBack"] for rule in (await tried(client))["rules"]}["r"] is True


async def test_a_dry_run_of_what_is_no_envelope_is_refused(client: Client) -> None:
    for data, start in ((b"[]", "the body: "), (b'{"envelope": {}}', "envelope: "), (b'{"envelope": 5}', "envelope: ")):
        message = assert_error(
            await client.request("POST", "v1/triggers/test", data=data, headers=JSON), 400, "invalid_request"
        )
        assert message.startswith(start)
    data = json.dumps({"envelope": envelope() | {"ts": 5}})
    answer = await client.request("POST", "v1/triggers/test", data=data, headers=JSON)
    assert_error(answer, 400, "invalid_envelope")
