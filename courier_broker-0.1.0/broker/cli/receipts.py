"""`courier receipts`: what became of one event."""

from typing import Any
from urllib.parse import quote

import click

from broker.cli.client import Client, broker_options, expect, run
from broker.cli.names import STREAM
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.terminal import shown, styled

_COLOURS = {"pending": "yellow", "processed": "green", "dead_letter": "red", "rejected": "red"}
_PAGE = "1000"
_BODY_SHOWN = 200


@click.command(
    short_help="Tell what became of one event.",
    epilog="""\b
Examples:
  courier receipts agents/Jen/inbox e-91a
  courier receipts --source redrive:17 e-91a
  courier receipts --rejected --source game-server
""",
)
@click.argument("stream", required=False)
@click.argument("event_id", metavar="ID", required=False)
@click.option("--source", metavar="SOURCE", help="The source of the event, where that is not a stream.")
@click.option("--rejected", is_flag=True, help="List what was refused for good, of SOURCE or of all.")
@json_option
@broker_options
def receipts(
    stream: str | None,
    event_id: str | None,
    source: str | None,
    rejected: bool,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Tell what became of the event ID of STREAM: when it came, how often, and what its state is.

    Events that came another way than over a stream are named by their source and their id: --source SOURCE ID.
    --rejected lists what was refused and is kept: with the token of a producer its own, with 'admin:*' everybody's.
    """
    if rejected:
        if stream is not None:
            raise click.UsageError("--rejected lists; give no stream and no id with it, but perhaps --source SOURCE")
        run(_list_rejected(Client(url, token, "admin:*"), source, person=for_person(as_json)))
        return
    if source is not None:
        if event_id is not None or stream is None:
            raise click.UsageError("with --source, give the id of the event and no stream: --source SOURCE ID")
        event_id = stream
        scope = "streams:*:subscribe"
    else:
        if stream is None or event_id is None:
            raise click.UsageError("give the stream and the id of the event: courier receipts STREAM ID")
        context = click.get_current_context()
        name = STREAM.convert(stream, None, context)
        source, scope = f"stream:{name}", f"streams:{name}:subscribe"
    run(_tell(Client(url, token, scope), source, event_id, person=for_person(as_json)))


async def _tell(client: Client, source: str, event_id: str, *, person: bool) -> None:
    async with client:
        receipt = await client.get(f"v1/receipts/{quote(source, safe='')}/{quote(event_id, safe='')}")
    expect(receipt, "state")
    _put(receipt, person=person)


async def _list_rejected(client: Client, source: str | None, *, person: bool) -> None:
    """Page after page, each receipt as one line or, for a person, as a paragraph."""
    query = {"status": "rejected", "limit": _PAGE} | ({} if source is None else {"source": source})
    is_first = True
    async with client:
        while True:
            page = await client.get("v1/receipts", query)
            expect(page, "receipts", "next")
            for receipt in page["receipts"]:
                if person and not is_first:
                    put("")
                is_first = False
                _put(receipt, person=person)
            if page["next"] is None:
                break
            query["after"] = str(page["next"])
    if is_first and person:
        say("nothing that was refused is kept" + ("" if source is None else f" of {source}"))


def _put(receipt: dict[str, Any], *, person: bool) -> None:
    if not person:
        put_json(receipt)
        return
    told = _told_of_refusal(receipt) if receipt["state"] == "rejected" else _told(receipt)
    for label, text in told:
        put(f"{label + ':':<14}{text}")


def _told_of_refusal(receipt: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("refused", shown(receipt["id"] or "(no id that could be read)")),
        ("source", shown(receipt["source"])),
        ("contract", shown(receipt["contract"])),
        ("received", receipt["receivedAt"]),
        ("state", styled("rejected", fg=_COLOURS["rejected"])),
        ("reason", shown(f"{receipt['code']}: {receipt['message']}")),
    ]
    if receipt["body"]:
        lines.append(("body", shown(receipt["body"][:_BODY_SHOWN])))
    return lines


def _told(receipt: dict[str, Any]) -> list[tuple[str, str]]:
    state = receipt["state"]
    lines = [
        ("event", f"{shown(receipt['id'])}, {shown(receipt['type'])}"),
        ("stream", shown(receipt["stream"])),
        ("sequence", str(receipt["seq"])),
        ("received", receipt["receivedAt"]),
        ("state", styled(state, fg=_COLOURS.get(state)) + (", a consumer holds it" if receipt["leased"] else "")),
        ("attempts", str(receipt["attempts"])),
    ]
    if receipt["processedAt"] is not None:
        lines.append(("finished", receipt["processedAt"]))
    if receipt["reason"] is not None:
        lines.append(("reason", shown(receipt["reason"])))
    if receipt["redrivenAs"] is not None:
        lines.append(("replayed as", str(receipt["redrivenAs"])))
    if receipt["duplicates"]:
        conflicts = receipt["payloadConflicts"]
        others = f" ({conflicts} with other bytes)" if conflicts else ""
        lines.append(("duplicates", f"{receipt['duplicates']}{others}, the last {receipt['lastSeenAt']}"))
    if receipt["emptied"]:
        lines.append(("contents", "emptied by retention"))
    return lines
