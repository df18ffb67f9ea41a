"""`courier token`: make the tokens of `auth.tokens`."""

import hashlib
import json
import math
import secrets
from typing import Any, Final

import click

from broker.cli.groups import Group
from broker.config.grammar import principal_problem, scope_problem
from broker.config.keys import nearest, quoted
from broker.limits import RATE_BURST_MAX, RATE_PER_SECOND_MAX, RATE_PER_SECOND_MIN

PREFIX: Final = "courier_"
"""What a token begins with, so that a scanner for secrets finds one that went astray."""

SECRET_BYTES: Final = 32

_ACTIONS: Final = {
    "enqueue": "enqueue", "publish": "enqueue", "pub": "enqueue", "write": "enqueue", "produce": "enqueue",
    "subscribe": "subscribe", "sub": "subscribe", "read": "subscribe", "consume": "subscribe", "receive": "subscribe",
}  # fmt: skip


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Example:
  courier token new game-server --scope 'streams:pixel/**:enqueue'
""",
)
def token() -> None:
    """Make the tokens with which callers prove who they are."""


def _checked_name(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if (problem := principal_problem(name)) is not None:
        raise click.BadParameter(f"{quoted(name)} cannot name a token: {problem}")
    return name


def _checked_scopes(_context: click.Context, _option: click.Parameter, scopes: tuple[str, ...]) -> tuple[str, ...]:
    for scope in scopes:
        if (problem := scope_problem(scope)) is not None:
            meant = nearest_scope(scope)
            hint = f"did you mean {quoted(meant)}?" if meant else problem
            raise click.BadParameter(f"{quoted(scope)} is not a scope; {hint}")
    return scopes


@token.command(
    epilog="""\b
Examples:
  courier token new game-server --scope 'streams:pixel/**:enqueue' --scope 'views:*:read'
  courier token new sensor --scope streams:sensors/door:enqueue --rate 10 --burst 50
  courier token new operator --scope 'admin:*' --json
"""
)
@click.argument("name", callback=_checked_name)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    callback=_checked_scopes,
    help="What it may do: streams:PATTERN:enqueue, streams:PATTERN:subscribe, views:NAME:read, devices:PATTERN, "
    "metrics:read or admin:*. May be repeated.",
)
@click.option(
    "--rate",
    type=click.FloatRange(RATE_PER_SECOND_MIN, RATE_PER_SECOND_MAX),
    help="How many events a second it may send in the long run.",
)
@click.option("--burst", type=click.IntRange(1, RATE_BURST_MAX), help="How many it may send at once; goes with --rate.")
@click.option("--json", "in_json", is_flag=True, help="Print one line of JSON instead.")
def new(name: str, scopes: tuple[str, ...], rate: float | None, burst: int | None, in_json: bool) -> None:
    """Make a token called NAME, and print it with its entry for the configuration file.

    The token is shown this once: only its hash is kept. Put the entry under auth.tokens, and send SIGHUP to a
    running broker.
    """
    if rate is not None and math.isnan(rate):
        raise click.UsageError("--rate is not a number")
    if (rate is None) != (burst is None):
        raise click.UsageError("--rate and --burst go together: give both, or neither")
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    entry: dict[str, Any] = {
        "name": name,
        "tokenHash": f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}",
        "scopes": list(scopes),
    }
    if rate is not None:
        entry["rate"] = {"perSecond": rate, "burst": burst}
    if in_json:
        click.echo(json.dumps({"name": name, "token": secret, **entry}))
        return
    click.echo(f"# The token, shown this once; keep it secret: {secret}")
    click.echo("# Its entry for auth.tokens:")
    first, *rest = (f"{key}: {_flow(value)}" for key, value in entry.items())
    click.echo("\n".join([f"- {first}", *(f"  {line}" for line in rest)]))


def nearest_scope(scope: str) -> str | None:
    """The scope that somebody probably meant; None when nothing is near."""
    kind, *rest = scope.split(":")
    if not rest and kind.lower() in _ACTIONS:
        return f"streams:*:{_ACTIONS[kind.lower()]}"
    match nearest(kind.lower(), ("streams", "views", "devices", "metrics", "admin")), rest:
        case "streams", [pattern, action]:
            known = _ACTIONS.get(action.lower()) or nearest(action.lower(), ("enqueue", "subscribe"))
            meant = f"streams:{_nearest_pattern(pattern)}:{known or 'enqueue'}"
        case "streams", [pattern]:
            meant = f"streams:{_nearest_pattern(pattern)}:enqueue"
        case "views", [view, *_]:
            meant = f"views:{view}:read"
        case "devices", [pattern, *_]:
            meant = f"devices:{_nearest_pattern(pattern)}"
        case "metrics", _:
            meant = "metrics:read"
        case "admin", _:
            meant = "admin:*"
        case _:
            return None
    return meant if scope_problem(meant) is None else None


def _nearest_pattern(pattern: str) -> str:
    """A pattern without what is often too much: slashes at its ends, and text beside a star."""
    segments = [("*" if "*" in segment and segment != "**" else segment) for segment in pattern.strip("/").split("/")]
    return "/".join(segments)


def _flow(value: Any) -> str:
    """A value in YAML's flow style, with every text quoted."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(each)}' for key, each in value.items())}}}"
    return json.dumps(value)
