"""`courier`: one file a command group.

serve    run the broker
pub      put events on a stream
sub      take events from a stream
import_  bring the events of an outbox that was carried here
backup   copy the journal, and verify a copy
config   check and show the configuration
token    make tokens
exits    the exit codes
client   how the client commands reach a broker
"""

import click

from broker.cli.backup import backup, verify
from broker.cli.config import config
from broker.cli.import_ import import_
from broker.cli.pub import pub
from broker.cli.serve import serve
from broker.cli.sub import sub
from broker.cli.token import token


@click.group(
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
    """Courier, an event broker: on disk before it is acknowledged, never twice by accident, never silently lost."""


main.add_command(serve)
main.add_command(pub)
main.add_command(sub)
main.add_command(import_)
main.add_command(backup)
main.add_command(verify)
main.add_command(config)
main.add_command(token)
