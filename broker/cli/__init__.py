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

import click

from broker.cli.backup import backup, verify
from broker.cli.config import config
from broker.cli.consumer_groups import groups
from broker.cli.dead import dead
from broker.cli.extensions import extensions
from broker.cli.groups import Group
from broker.cli.import_ import import_
from broker.cli.manifest import manifest
from broker.cli.pipe import pipe
from broker.cli.pub import pub
from broker.cli.receipts import receipts
from broker.cli.replay import replay
from broker.cli.schedule import schedule
from broker.cli.serve import serve
from broker.cli.service import service
from broker.cli.sources import sources
from broker.cli.streams import streams
from broker.cli.sub import sub
from broker.cli.tail import tail
from broker.cli.token import token
from broker.cli.top import top
from broker.cli.why import why


@click.group(
    cls=Group,
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


main.add_command(serve)
main.add_command(pub)
main.add_command(sub)
main.add_command(tail)
main.add_command(streams)
main.add_command(top)
main.add_command(groups)
main.add_command(schedule)
main.add_command(sources)
main.add_command(dead)
main.add_command(receipts)
main.add_command(pipe)
main.add_command(manifest)
main.add_command(extensions)
main.add_command(why)
main.add_command(import_)
main.add_command(replay)
main.add_command(backup)
main.add_command(verify)
main.add_command(config)
main.add_command(token)
main.add_command(service)
