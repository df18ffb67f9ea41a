"""`courier manifest`: what a stream kernel needs to start Courier and to register it."""

import ipaddress
import os
import sys
from pathlib import Path

import click
import orjson

from broker.cli import exits
from broker.config import Config, load
from broker.embedded.manifest import CLASS_HEX, NAME
from broker.embedded.manifest import manifest as make
from broker.errors import ConfigError


@click.command(
    epilog="""\b
Examples:
  courier manifest > courier.manifest.json
  courier manifest --data /var/lib/courier --port 9000
  courier manifest --no-http
"""
)
@click.option("--config", "file", type=click.Path(path_type=Path), help="A YAML file; else COURIER_CONFIG names it.")
@click.option("--data", type=str, metavar="DIR", help="The directory of the journal. [default: ./data]")
@click.option("--http/--no-http", "with_http", default=True, show_default=True, help="Whether it also listens.")
@click.option("--host", help="The address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port to listen on. [default: 8787]")
@click.option("--servername", default=NAME, show_default=True, help="The name to register it under.")
@click.option("--fqdn", help="The name of the machine. [default: its own]")
@click.option("--class-hex", default=CLASS_HEX, show_default=True, help="The class of service.")
@click.option("--owner", default=NAME, show_default=True, help="Who it belongs to.")
def manifest(
    file: Path | None,
    data: str | None,
    with_http: bool,
    host: str | None,
    port: int | None,
    servername: str,
    fqdn: str | None,
    class_hex: str,
    owner: str,
) -> None:
    """Print the manifest of 'courier pipe --stdio' for a stream kernel, as JSON.

    It has the command with its arguments, the capabilities and, unless --no-http is given, the URL of a health check
    and of the figures. Paths in it are absolute, so that the kernel may run anywhere.
    """
    flags = {"server.host": host, "server.port": port, "data": data}
    try:
        config = load(file, os.environ, {path: value for path, value in flags.items() if value is not None}).config
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"courier: {problem}", err=True)
        sys.exit(exits.CONFIG)
    if with_http and config.server.port == 0:
        raise click.UsageError("the manifest names the port, so it cannot be 0; give --port, or --no-http")
    named = file or (Path(os.environ["COURIER_CONFIG"]) if os.environ.get("COURIER_CONFIG") else None)
    arguments = ["--data", str(Path(config.data).absolute())]
    if named is not None:
        arguments += ["--config", str(named.absolute())]
    if with_http:
        arguments += ["--http", "--host", config.server.host, "--port", str(config.server.port)]
    whole = make(
        arguments,
        cwd=Path.cwd(),
        url=_url(config) if with_http else None,
        servername=servername,
        fqdn=fqdn,
        class_hex=class_hex,
        owner=owner,
    )
    click.echo(orjson.dumps(whole, option=orjson.OPT_INDENT_2))


def _url(config: Config) -> str:
    """Where this machine reaches the broker; one that listens everywhere is on loopback too."""
    host = config.server.host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"http://{host}:{config.server.port}"
    if address.is_unspecified:
        address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
    return (
        f"http://[{address}]:{config.server.port}" if address.version == 6 else f"http://{address}:{config.server.port}"
    )
