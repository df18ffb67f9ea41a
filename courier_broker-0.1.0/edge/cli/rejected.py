"""`courier-edge rejected`: what the broker refused, and what is to become of it."""

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import orjson

from edge.cli.daemon import ask, connect, with_outbox
from edge.cli.options import FAILED, OF_THE_OUTBOX, add_settings, settings_of
from edge.errors import RequestInvalid
from edge.export import listed
from edge.limits import LIST_ROWS_DEFAULT, LIST_ROWS_MAX
from edge.storage import open_reader
from edge.store import Store


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    group = commands.add_parser(
        "rejected",
        help="list, retry or drop what the broker refused",
        description="Events that the broker refused stay in the outbox and are tried again on a slow schedule.",
    )
    actions = group.add_subparsers(dest="rejected", required=True, metavar="ACTION")
    show = actions.add_parser("list", help="one JSON line each, oldest first", description="Print what was refused.")
    show.add_argument(
        "--limit", type=int, default=LIST_ROWS_DEFAULT, help=f"at most so many [default: {LIST_ROWS_DEFAULT}]"
    )
    add_settings(show, OF_THE_OUTBOX)
    show.set_defaults(action=show_rejected)
    for name, what, action in (
        ("retry", "send them again now", Store.retry_rejected),
        ("drop", "delete them for good", Store.drop_rejected),
    ):
        parser = actions.add_parser(name, help=what, description=f"Name events, or all of them, to {what}.")
        parser.add_argument("event_ids", nargs="*", metavar="EVENT_ID")
        parser.add_argument("--all", action="store_true", help="all that were refused")
        add_settings(parser, OF_THE_OUTBOX)
        parser.set_defaults(action=_changing(name, action))


def show_rejected(given: argparse.Namespace) -> int:
    """Print them."""
    settings = settings_of(given)
    if not 1 <= given.limit <= LIST_ROWS_MAX:
        raise RequestInvalid(f"--limit is {given.limit}; between 1 and {LIST_ROWS_MAX}")
    with closing(open_reader(Path(settings.path))) as connection:
        for row in listed(connection, given.limit):
            sys.stdout.write(orjson.dumps(row).decode() + "\n")
    return 0


def _changing(name: str, action: Callable[[Store, list[str] | None], int]) -> Callable[[argparse.Namespace], int]:
    def change(given: argparse.Namespace) -> int:
        settings = settings_of(given)
        if bool(given.event_ids) == given.all:
            raise RequestInvalid("name the events, or give --all")
        event_ids = None if given.all else given.event_ids
        connection = connect(settings)
        if connection is not None:
            which = {"all": True} if given.all else {"event_ids": event_ids}
            (count,) = ask(connection, f"rejected-{name}", **which).values()
        else:
            count = with_outbox(settings, lambda outbox: outbox.change(lambda store: action(store, event_ids)))
        sys.stdout.write(f"{count}\n")
        return FAILED if event_ids is not None and count < len(set(event_ids)) else 0

    return change
