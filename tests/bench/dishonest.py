"""A server that answers as it is told to: what a benchmark must not believe."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[[int], bytes]
"""What the n-th unit is answered with, from 0; nothing at all is an answer too."""


@contextmanager
def server(unit_bytes: int, units: int, answer: Answer, hello: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server for one connection: it reads so many units, answers each, and waits for the end."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            hello(connection)
            for unit in range(units):
                left = unit_bytes
                while left:
                    got = connection.recv(left)
                    if not got:
                        return
                    left -= len(got)
                connection.sendall(answer(unit))
            connection.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()
        thread.join()


def plain(_connection: socket.socket) -> None:
    """No handshake."""


def upgrade(connection: socket.socket) -> None:
    """The handshake of a WebSocket, as far as a client of the benchmark looks."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(4096)
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
