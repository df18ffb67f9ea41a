"""`courier service`: the broker as a service of systemd."""

import os
import sys
from pathlib import Path

import click

from broker.cli import exits
from broker.cli.groups import Group
from broker.cli.unit import NAME, SYSTEM, unit
from broker.config import load
from broker.errors import ConfigError


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Example:
  courier service install --dry-run
""",
)
def service() -> None:
    """Run the broker as a service of systemd."""


@service.command(
    epilog="""\b
Examples:
  courier service install --dry-run
  courier service install --config /etc/courier/courier.yaml
  courier service install --user
"""
)
@click.option("--user", "for_user", is_flag=True, help="A service of your own: no root, and it runs while you do.")
@click.option("--dry-run", is_flag=True, help="Print the unit, and change nothing.")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Its settings, a YAML file. [default: none, but what the unit says]",
)
@click.option(
    "--tokens",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Its tokens, a YAML list, which systemd reads for it. [default: courier/tokens.yaml in /etc or ~/.config]",
)
def install(for_user: bool, dry_run: bool, file: Path | None, tokens: Path | None) -> None:
    """Write the systemd unit of the broker.

    It is restarted when it ends, and when its commits hang. Its journal is in /var/lib/courier, or with --user where
    systemd keeps the state of your services. Its tokens are handed over as a credential, so that only root need be
    able to read their file; without one there are no tokens. Settings are checked first: with problems in them the
    exit code is 78, and nothing is written.
    """
    file, tokens = (None if path is None else path.absolute() for path in (file, tokens))
    program = _program()
    secrets = tokens or (_user_settings() if for_user else Path("/etc")) / "courier/tokens.yaml"
    told = {"COURIER_AUTH__TOKENS_FILE": str(secrets)} if tokens is not None or secrets.exists() else {}
    try:
        drain_ms = load(file, told, {}).config.server.drain_ms
        text = unit(program, file, tokens, drain_ms, for_user=for_user)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"courier: {problem}", err=True)
        sys.exit(exits.CONFIG)
    hidden = [each for each in (program[0], str(file)) if each.startswith(("/home/", "/root/")) and not for_user]
    if hidden:
        click.echo(
            f"courier: the service cannot see home directories, so not {hidden[0]}; move it, to /opt for example, "
            "or take --user",
            err=True,
        )
    if dry_run:
        click.echo(text, nl=False)
        return
    path = (_user_settings() / "systemd/user" if for_user else SYSTEM) / NAME
    try:
        if for_user:
            path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        hint = "" if for_user else "; run it as root, or with --user"
        click.echo(f"courier: {path} cannot be written: {error.strerror}{hint}", err=True)
        sys.exit(exits.FAILED)
    systemctl = "systemctl --user" if for_user else "systemctl"
    click.echo(f"{path} is written. Now: {systemctl} daemon-reload && {systemctl} enable --now courier")


def _program() -> list[str]:
    """What the unit starts: the command that this is, or else this Python with the module."""
    command = Path(sys.argv[0]).absolute()
    return [str(command)] if command.name == "courier" else [sys.executable, "-m", "broker"]


def _user_settings() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
