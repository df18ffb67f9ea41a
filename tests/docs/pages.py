"""The parts of the pages that follow from the code: made here, and compared by a test.

A part stands in its page between `<!-- Made by tests/docs/pages.py: NAME -->` and `<!-- End of NAME -->`.
`python -m tests.docs.pages` writes all of them anew.
"""

import argparse
import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import click
from click.testing import CliRunner

from broker import limits
from broker.cli import exits, main
from broker.config import reference
from broker.errors import ConfigError, CourierError
from broker.extensions.reading import manifest_type
from broker.ops import bus_metrics  # noqa: F401 - the figures of the bus, which the server does not have
from broker.ops.metrics import DEFINED
from edge import config as edge_config
from edge import limits as edge_limits
from edge.cli import parser as edge_parser
from edge.errors import EdgeError
from tests.docs.markdown import ROOT

EDGE = ROOT / "docs/reference/edge.md"
HTTP, WEBSOCKET, CLI = (ROOT / f"docs/reference/{name}.md" for name in ("http", "websocket", "cli"))
STDIO = ROOT / "docs/reference/stdio.md"
METRICS = ROOT / "docs/reference/metrics.md"
ARCHITECTURE = ROOT / "docs/ARCHITECTURE.md"
EXTENSIONS = ROOT / "docs/reference/extensions.md"

COLUMNS = "80"
"""How wide a terminal the help is shown for."""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    assert not any("|" in cell or "\n" in cell for line in lines for cell in line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sentence(text: str) -> str:
    """A docstring's first paragraph on one line, with `|` spelled out."""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "or")


# The command line.


def commands(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every command that is not hidden; a group before what is in it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            if not child.hidden:
                yield from commands(child, (*path, name))


def help_of(path: tuple[str, ...]) -> str:
    """What `courier … --help` prints."""
    shown = CliRunner().invoke(main, [*path, "--help"], prog_name="courier", env={"COLUMNS": COLUMNS})
    assert shown.exit_code == 0, shown.output
    return shown.output


def help_texts() -> str:
    """A section for each command."""
    sections = [
        f"### `{' '.join(('courier', *path))}`\n\n```text\n{help_of(path).rstrip()}\n```" for path in commands()
    ]
    return "\n\n".join(sections)


WITHOUT_DOCSTRING = {
    "FAILED": "It did not work, for a reason that no other code stands for: a drain that ran out of time, a file that "
    "cannot be written, a journal that is not whole.",
    "USAGE": "The command line is wrong, or what was to be sent is not JSON.",
}


def exit_codes() -> str:
    """The codes of `broker/cli/exits.py` with their docstrings."""
    body = ast.parse(inspect.getsource(exits)).body
    meanings = dict(WITHOUT_DOCSTRING)
    for before, node in pairwise(body):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(node, ast.Expr):
            meanings[before.target.id] = sentence(ast.literal_eval(node.value))
    codes = {name: code for name, code in vars(exits).items() if name.isupper()}
    rows = [(f"{code}", f"`{name}`", meanings[name]) for name, code in sorted(codes.items(), key=lambda each: each[1])]
    return table(("Code", "Name", "Meaning"), rows)


# The wire.


def refusals() -> list[type[CourierError]]:
    """Every error that can be on the wire, by status and code."""

    def below(kind: type[CourierError]) -> Iterator[type[CourierError]]:
        yield kind
        for child in kind.__subclasses__():
            if child.__module__ == CourierError.__module__ and child is not ConfigError:
                yield from below(child)

    return sorted(below(CourierError), key=lambda kind: (kind.status, kind.code))


def error_table() -> str:
    """Every error code with its HTTP status."""
    own = {"internal": "The broker met an error of its own; its log has the details."}
    rows = [
        (
            f"`{kind.code}`",
            f"{kind.status}",
            "yes" if kind.retryable else "no",
            own.get(kind.code) or sentence(kind.__doc__ or ""),
        )
        for kind in refusals()
    ]
    return table(("Code", "Status", "Retry", "Meaning"), rows)


def _bounds(names: dict[str, str]) -> str:
    rows = [(what, f"{getattr(limits, name):,}") for name, what in names.items()]
    return table(("What", "At most"), rows)


def http_bounds() -> str:
    """The bounds of what is enqueued."""
    return _bounds(
        {
            "STREAM_NAME_BYTES_MAX": "bytes of a stream's name",
            "STREAM_NAME_SEGMENTS_MAX": "segments of a stream's name",
            "EVENT_ID_BYTES_MAX": "bytes of an event's `id`",
            "EVENT_TYPE_BYTES_MAX": "bytes of an event's `type`",
            "ENVELOPE_BYTES_MAX": "bytes of an envelope",
            "BODY_BYTES_DEFAULT": "bytes of a body, unless `server.maxBodyBytes` says otherwise",
            "NDJSON_LINES_MAX": "lines of a body of many events, blank ones included",
            "JSON_DEPTH_MAX": "levels of nesting in a body",
            "STREAMS_MAX": "streams",
            "PAGE_LIMIT_MAX": f"`limit` of a page ({limits.PAGE_LIMIT_DEFAULT} if it is not given)",
            "BROWSE_ROWS_MAX": "events of the ledger that one request for the events of a stream looks at",
            "BROWSE_BYTES_MAX": "bytes of envelopes on such a page, if it has more than one",
            "TRIGGERS_MAX": "triggers, of the configuration and of the API together",
            "TRIGGER_ACTIONS_MAX": "actions of a trigger",
            "TRIGGER_RULE_BYTES_MAX": "bytes of a trigger that is put over the API",
            "TRIGGER_HOPS_MAX": "triggers in a chain, from what was sent to the last effect",
            "TRIGGER_EMITTED_PER_CAUSE_MAX": "events that one event sets off",
            "WHY_CHAIN_MAX": "effects that the life of an event lists",
            "WHY_FOUND_MAX": "events that a search by id finds",
            "WHY_SOURCES_MAX": "sources that a search by id looks at",
            "SNAPSHOTS_AT_ONCE_MAX": "snapshots that are being sent at once; one more is answered with `503 saturated`",
            "DISCARD_REASON_BYTES_MAX": "bytes of the `reason` of a discard",
            "FILTER_TEXT_BYTES_MAX": "bytes of one part of a filter",
        }
    )


def websocket_bounds() -> str:
    """The bounds of a subscription."""
    return _bounds(
        {
            "CREDIT_MAX": "credit that one subscriber holds",
            "NACK_DELAY_MS_MAX": "`delayMs`, in milliseconds",
            "LEASE_MS_MAX": f"`leaseMs`, in milliseconds (and at least {limits.LEASE_MS_MIN:,})",
            "FRAME_BYTES_MAX": "bytes of a frame to the broker",
            "REQUESTS_PER_FRAME_MAX": "events in one array to `/v1/publish`",
            "KEYS_PER_FRAME_MAX": "events that one `ack`, `nack` or `extend` names",
            "DELIVER_BATCH_MAX": "`batch`, in envelopes of one frame",
            "WRITE_BYTES_MAX": "bytes after which a write, and a frame of a batch, takes no further event",
            "STALLED_READER_MS_MAX": "milliseconds that a connection may take no byte of what is to be sent",
            "VIEW_ENTRIES_DEFAULT": "addresses in a view, unless `views.maxEntries` says otherwise",
            "VIEW_BYTES_DEFAULT": "bytes of envelopes in a view, unless `views.maxBytes` says otherwise",
            "LEASES_MAX": "deliveries that are out at once, over all streams",
            "FOLLOWERS_MAX": "connections that follow at once",
            "TAIL_WAITING_MAX": "events that wait for one follower",
            "TAIL_WAITING_BYTES_MAX": "bytes of envelopes that wait for one follower",
        }
    )


def stdio_bounds() -> str:
    """The bounds of a pipe."""
    return _bounds(
        {
            "STDIO_LINE_BYTES_MAX": "bytes of a line to the broker",
            "NDJSON_LINES_MAX": "events in the array of one `enqueue`",
            "KEYS_PER_FRAME_MAX": "events that one `ack`, `nack` or `extend` names",
            "CREDIT_MAX": "`window`, and credit that is granted",
            "PIPE_ANSWERS_MAX": "answers that are not read, before nothing more is taken",
            "PIPE_ANSWERS_SETTLING_MAX": "the same for `credit`, `ack`, `nack` and `extend`",
            "WRITE_BYTES_MAX": "bytes after which a write takes no further message",
        }
    )


def metrics() -> str:
    """Every metric with its type and labels, by name."""
    rows = [
        (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.meaning)
        for each in sorted(DEFINED.values())
    ]
    return table(("Metric", "Type", "Labels", "Meaning"), rows)


def manifest_keys() -> str:
    """Every key of the manifest of an extension."""
    rows = [(row.key, row.type, row.bounds, row.default, row.meaning) for row in reference.rows(manifest_type())]
    return table(("Key", "Type", "Bounds", "Default", "Meaning"), [tuple(cell or "—" for cell in row) for row in rows])


def extension_bounds() -> str:
    """The bounds of extensions, channels and agents."""
    return _bounds(
        {
            "EXTENSIONS_MAX": "extensions in a directory",
            "EXTENSION_FILES_MAX": "files of an extension",
            "EXTENSION_INITIALIZE_SECONDS_MAX": "seconds that `initialize` may take",
            "EXTENSION_FINISH_SECONDS_MAX": "seconds that handlers of an old version are waited for at a reload",
            "EXTENSION_SHUTDOWN_SECONDS_MAX": "seconds that `shutdown` may take",
            "NOTIFICATION_BYTES_MAX": "bytes of a message to the user",
            "AGENT_ANSWER_BYTES_MAX": "bytes of an answer of an agent",
            "AGENT_BODY_BYTES_MAX": "bytes that an endpoint may send for one answer",
            "AGENT_SSE_EVENT_BYTES_MAX": "bytes of one server-sent event",
            "OUTGOING_RETRY_AFTER_SECONDS_MAX": "seconds of patience that a server may ask for",
        }
    )


# The edge.


def edge_settings() -> str:
    """Every setting of `courier-edge` with its default."""
    rows = [
        (f"`{name}`", f"`{each.default}`" if each.default != "" else "", each.metadata["meaning"].replace("|", "or"))
        for name, each in edge_config.FIELDS.items()
    ]
    return table(("Setting", "Default", "Meaning"), rows)


def edge_errors() -> str:
    """Every error that the intake answers with."""

    def below(kind: type[EdgeError]) -> Iterator[type[EdgeError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    unseen = {"internal", "settings_invalid", "outbox_unusable", "outbox_in_use"}
    rows = [
        (f"`{kind.code}`", f"{kind.status}", "yes" if kind.retryable else "no", sentence(kind.__doc__ or ""))
        for kind in sorted(below(EdgeError), key=lambda kind: (kind.status, kind.code))
        if kind.code not in unseen
    ]
    return table(("Code", "Status", "Retry", "Meaning"), rows)


def edge_bounds() -> str:
    """The bounds of the edge."""
    names = {
        "EVENT_BYTES_MAX": "bytes of an event",
        "EVENT_ID_BYTES_MAX": "bytes of an `event_id`",
        "DEVICE_ID_BYTES_MAX": "bytes of the `device_id` of the settings",
        "LANE_BYTES_MAX": "bytes of the name of a lane",
        "LANES_MAX": "lanes",
        "INTAKE_EVENTS_MAX": "events of one request, or lines that are unanswered on the socket",
        "INTAKE_BODY_BYTES_MAX": "bytes of a request",
        "INTAKE_CONNECTIONS_MAX": "connections to the socket",
        "WINDOW_MAX": "`window`",
        "RETRY_AFTER_SECONDS_MAX": "seconds of patience that a server may ask for",
        "RESERVE_BYTES": "bytes of the reserve",
    }
    return table(("What", "At most"), [(what, f"{getattr(edge_limits, name):,}") for name, what in names.items()])


def edge_help() -> str:
    """A section for each command of `courier-edge`."""

    def sections(parser: argparse.ArgumentParser) -> Iterator[str]:
        parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=int(COLUMNS))  # type: ignore[assignment]
        yield f"### `{parser.prog}`\n\n```text\n{parser.format_help().rstrip()}\n```"
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for child in action.choices.values():
                    yield from sections(child)

    return "\n\n".join(sections(edge_parser()))


# The tree.


def layers() -> str:
    """The layers that import-linter keeps, as `pyproject.toml` has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    return "```text\n" + "\n".join(contract["layers"]) + "\n```"


PARTS: dict[str, tuple[Path, Callable[[], str]]] = {
    "help": (CLI, help_texts),
    "exit codes": (CLI, exit_codes),
    "errors": (HTTP, error_table),
    "bounds of HTTP": (HTTP, http_bounds),
    "bounds of WebSocket": (WEBSOCKET, websocket_bounds),
    "bounds of stdio": (STDIO, stdio_bounds),
    "metrics": (METRICS, metrics),
    "layers": (ARCHITECTURE, layers),
    "manifest": (EXTENSIONS, manifest_keys),
    "bounds of extensions": (EXTENSIONS, extension_bounds),
    "edge settings": (EDGE, edge_settings),
    "edge errors": (EDGE, edge_errors),
    "bounds of the edge": (EDGE, edge_bounds),
    "edge help": (EDGE, edge_help),
}


def _frame(name: str) -> re.Pattern[str]:
    begin, end = f"<!-- Made by tests/docs/pages.py: {name} -->\n", f"\n<!-- End of {name} -->"
    return re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)


def part(name: str) -> str:
    """A part as its page has it."""
    page, _ = PARTS[name]
    (found,) = _frame(name).findall(page.read_text(encoding="utf-8"))
    return str(found)


def write_all() -> None:
    """Make every part anew in its page."""
    for name, (page, make) in PARTS.items():
        text = page.read_text(encoding="utf-8")
        place = _frame(name).search(text)
        assert place is not None, f"{page} has no place for {name}"
        page.write_text(text[: place.start()] + make() + text[place.end() :], encoding="utf-8")


if __name__ == "__main__":
    write_all()
