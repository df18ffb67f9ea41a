"""What goes to stdout: lines for a person on a terminal, JSON lines for everybody else."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
import orjson

from broker.cli.terminal import is_terminal

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON lines, as when stdout is not a terminal.")(
        command
    )


def for_person(as_json: bool) -> bool:
    """Whether stdout is a terminal and nobody asked for JSON."""
    return not as_json and is_terminal(sys.stdout)


class NotWritten(Exception):
    """What was to go to stdout did not get there, for a reason other than a reader that went away."""


def put(line: str | bytes) -> None:
    """One line of data. It is out when this returns; raise NotWritten or BrokenPipeError when it is not."""
    try:
        click.echo(line)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWritten(f"stdout cannot be written: {error.strerror}") from None


def put_json(value: Any) -> None:
    """One line of JSON."""
    put(orjson.dumps(value))


def say(message: str) -> None:
    """Something that is not data, on stderr."""
    click.echo(f"courier: {message}", err=True)
