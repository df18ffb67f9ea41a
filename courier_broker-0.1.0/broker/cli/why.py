"""`courier why`: the whole life of one event, and the reasons for it."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import click

from broker.cli import exits
from broker.cli.client import Client, broker_options, expect, fail, run
from broker.cli.output import for_person, json_option, put, put_json
from broker.cli.terminal import shown
from broker.limits import SEQ_MAX


@click.command(
    short_help="Tell the whole life of one event, and the reasons for it.",
    epilog="""\b
Examples:
  courier why e-91a
  courier why e-91a --stream agents/Jen/inbox
  courier why --seq 17 --json
""",
)
@click.argument("event_id", required=False)
@click.option("--stream", help="The stream that it is on, if others have an event of this id too.")
@click.option("--source", help="Where it came from, such as stream:agents/Jen/inbox or trigger:RULE.")
@click.option("--seq", type=click.IntRange(1, SEQ_MAX), help="Its sequence, instead of its id.")
@json_option
@broker_options
def why(
    event_id: str | None,
    stream: str | None,
    source: str | None,
    seq: int | None,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Tell the life of the event EVENT_ID: its receipt, its deliveries, its rules, its causes and effects.

    The rules are asked as they are now; what they did when the event came is listed as what it caused.
    """
    if (event_id is None) == (seq is None):
        raise click.UsageError("name the event by its id, or by --seq")
    if seq is not None and (stream or source):
        raise click.UsageError("--stream and --source go with an id; a sequence needs neither")
    named = {"id": event_id, "stream": stream, "source": source, "seq": seq}
    wanted = {key: str(value) for key, value in named.items() if value is not None}
    run(_tell(Client(url, token, f"streams:{stream or '*'}:subscribe"), wanted, person=for_person(as_json)))


async def _tell(client: Client, named: dict[str, str], *, person: bool) -> None:
    async with client:
        found = await client.get("v1/why", named)
        expect(found, "events")
        event = _the_one(found, named)
        life = await client.get(f"v1/why/{quote(event['source'], safe='')}/{quote(event['id'], safe='')}")
        expect(life, "seq", "considered")
    if not person:
        put_json(life)
        return
    for line in _lines(life):
        put(shown(line))


def _the_one(found: dict[str, Any], named: dict[str, str]) -> dict[str, Any]:
    """The event that is meant; end when there is none, or more than one."""
    what = " ".join(f"{key} {value!r}" for key, value in named.items())
    events: list[dict[str, Any]] = found.get("events", [])
    if not events:
        hint = "" if found.get("complete") else "; not everything was looked at: name it with --stream or --source"
        fail(f"no event with {what} is stored, or none that you may see{hint}", exits.REFUSED)
    if len(events) > 1:
        lines = [f"  --source {event['source']}  (sequence {event['seq']}, {event['stream']})" for event in events]
        fail("\n".join([f"{len(events)} events have {what}; say which:", *lines]), exits.REFUSED)
    return events[0]


def _lines(life: dict[str, Any]) -> Iterator[str]:
    yield f"{life['id']} on {life['stream']}: {_state(life)}"
    yield f"  type      {life['type']}"
    yield f"  contract  {life['contract']}, from {life['source']}"
    yield f"  accepted  {life['receivedAt']}, sequence {life['seq']}"
    yield f"  repeated  {_repeated(life)}"
    if life["enriched"]:
        yield "  enriched  by rules, before it was stored"
    yield f"  attempts  {_attempts(life)}"
    if life["reason"] is not None:
        yield f"  reason    {life['reason']}"
    if life["redrivenFrom"] is not None:
        yield f"  redriven  from dead letter {life['redrivenFrom']}"
    if life["redrivenAs"] is not None:
        yield f"  redriven  as sequence {life['redrivenAs']}"
    for event in life["causedBy"]:
        yield f"  caused by {_brief(event)}"
    if life["rule"] is not None:
        yield f"  rule      {life['rule']} emitted it"
    for event in life["caused"]:
        yield f"  caused    {_brief(event)}"
    if not life["causedComplete"]:
        yield "  caused    more than these"
    if life["hidden"]:
        yield f"  hidden    {life['hidden']} causes or effects on streams that you may not see"
    yield from _rules(life["considered"])


def _state(life: dict[str, Any]) -> str:
    match life["state"]:
        case "pending":
            return "held by a consumer" if life["leased"] else "waits for a consumer"
        case "dead_letter":
            return f"dead letter since {life['processedAt']}"
    return f"processed at {life['processedAt']}"


def _repeated(life: dict[str, Any]) -> str:
    if not life["duplicates"]:
        return "never"
    often = "once" if life["duplicates"] == 1 else f"{life['duplicates']} times"
    conflicts = life["payloadConflicts"]
    differing = f", {conflicts} of them with another payload" if conflicts else ""
    return f"{often}, at last at {life['lastSeenAt']}{differing}"


def _attempts(life: dict[str, Any]) -> str:
    if not life["attempts"]:
        return "none that has ended"
    first = f", the first at {life['firstAttemptAt']}" if life["firstAttemptAt"] is not None else ""
    return f"{life['attempts']}{first}"


def _brief(event: dict[str, Any]) -> str:
    rule = f", by {event['rule']}" if event["rule"] is not None else ""
    return f"{event['seq']} {event['id']} on {event['stream']} ({event['type']}, {event['state']}{rule})"


def _rules(considered: dict[str, Any] | None) -> Iterator[str]:
    if considered is None:
        yield "  rules     shown to operators only"
        return
    if considered["evaluated"] == "not":
        yield f"  rules     {considered['note']}"
        return
    if not considered["rules"]:
        yield "  rules     there are none now"
        return
    yield "  rules, as they are now:"
    for rule in considered["rules"]:
        yield f"    {rule['id']} ({rule['origin']}) " + ("matches" if rule["matches"] else f"does not: {rule['miss']}")
