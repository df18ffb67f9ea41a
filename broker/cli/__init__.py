"""`courier`: one file a command group.

serve        run the broker
pub          put events on a stream
  requests     events as requests
  stdin_lines  the lines of stdin
  publisher    sends them, batch after batch
sub          take events from a stream
tail         look at new events without consuming them
  reconnect    a connection that is made again
  events       an event as one line
streams      the streams in figures
top          the same, live
sources      the sources that are pulled from
  figures      the figures of streams, read and laid out
consumer_groups  consumer groups: list, delete
schedule     what is published later: add, list, cancel
dead         dead letters: list, show, replay, discard
  bulk         an action on all that match
receipts     what became of one event
why          the whole life of one event
pipe         the broker as a child process, over stdin and stdout
manifest     how a stream kernel starts that
extensions   run extensions on a broker of their own, check them
  terminal_channel  the channel to whoever sits at the terminal
running      what the commands share that run a broker without being serve
import_      bring the events of an outbox that was carried here
replay       recorded events, once more
  position     how far that has come, kept in a file
backup       copy the journal, and verify a copy
config       check and show the configuration
token        make tokens
service      the broker under systemd
  unit         the unit
exits        the exit codes
groups       groups of commands: the name that was meant, and quiet ends
names        names of streams as arguments
client       how the client commands reach a broker
output       what goes to stdout
broken_pipe  a reader of stdout that goes away
progress     how far long work has come
table        rows under their heads
units        figures as people read them
terminal     what the terminal can do
"""

from importlib import import_module
from typing import Final

import click

from broker.cli.groups import Group

COMMANDS: Final = {
    "backup": "backup",
    "config": "config",
    "dead": "dead",
    "extensions": "extensions",
    "groups": "consumer_groups",
    "import": "import_",
    "manifest": "manifest",
    "pipe": "pipe",
    "pub": "pub",
    "receipts": "receipts",
    "replay": "replay",
    "schedule": "schedule",
    "serve": "serve",
    "service": "service",
    "sources": "sources",
    "streams": "streams",
    "sub": "sub",
    "tail": "tail",
    "token": "token",
    "top": "top",
    "verify": "backup",
    "why": "why",
}
"""Each command, and the module of this room that has it."""


class Commands(Group):
    """The commands of `courier`. One is imported when it is asked for: importing all takes longer than most of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Every name."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as click calls it
        """The command of this name."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            module = import_module(f"broker.cli.{COMMANDS[cmd_name]}")
            self.add_command(getattr(module, "import_" if cmd_name == "import" else cmd_name))
        return self.commands.get(cmd_name)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="""\b
A first event, in and out:
  courier serve &
  courier pub agents/Jen/inbox '{"title": "hello"}'
  courier sub agents/Jen/inbox -n 1
""",
)
@click.version_option(package_name="courier-broker", prog_name="courier")
def main() -> None:
    """Courier, an event broker: on disk before it is acknowledged, never twice by accident, never silently lost.

    Data goes to stdout, everything else to stderr: lines for people on a terminal, else JSON lines.
    """
