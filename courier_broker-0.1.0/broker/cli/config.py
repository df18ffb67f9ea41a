"""`courier config`: check a configuration file, and show what is in effect."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from broker.cli import exits
from broker.cli.groups import Group
from broker.config import LoadedConfig, load
from broker.config.reference import reference as reference_text
from broker.config.show import as_json, as_yaml
from broker.errors import ConfigError


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  courier config check courier.yaml
  courier config show --config courier.yaml --origin
  COURIER_SERVER__PORT=9000 courier config show --origin | grep port
""",
)
def config() -> None:
    """Check a configuration file, or show what is in effect.

    A flag beats the environment (COURIER_SERVER__PORT=9000), which beats the file, which beats the default.
    """


@config.command(epilog="\b\nExample:\n  courier config check courier.yaml && systemctl restart courier\n")
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Check FILE by itself, without the environment.

    Every problem is one line on stderr, with its line in FILE, and the exit code is 78 (EX_CONFIG).
    """
    count = len(_load_or_exit(file, {}).keys_set())
    click.echo(f"{file}: ok ({count} {'key' if count == 1 else 'keys'} set)")


@config.command(epilog="\b\nExample:\n  courier config show --config courier.yaml --origin\n")
@click.option("--config", "file", type=click.Path(path_type=Path), help="The file; else COURIER_CONFIG names it.")
@click.option("--origin", "with_origin", is_flag=True, help="Say where each value came from.")
@click.option("--json", "in_json", is_flag=True, help="Print JSON instead of YAML.")
def show(file: Path | None, with_origin: bool, in_json: bool) -> None:
    """Print the configuration in effect: defaults, file and environment together. Tokens are masked."""
    loaded = _load_or_exit(file, os.environ)
    click.echo((as_json if in_json else as_yaml)(loaded, with_origin=with_origin), nl=False)


@config.command(hidden=True)
def reference() -> None:
    """Print the tables of docs/reference/configuration.md."""
    click.echo(reference_text(), nl=False)


def _load_or_exit(file: Path | None, environ: Mapping[str, str]) -> LoadedConfig:
    try:
        return load(file, environ, {})
    except ConfigError as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        raise SystemExit(exits.CONFIG) from None
