"""Confirmations of RabbitMQ come in any order, one at a time or all up to one."""

import socket
import struct

import pytest

from bench.failure import BenchmarkFailed
from bench.load.inbox import Inbox
from bench.wire import amqp


def confirm(tag: int, *, multiple: bool = False, name: tuple[int, int] = amqp.ACK) -> bytes:
    return amqp.method(name, struct.pack(">QB", tag, multiple))


def count(confirms: amqp.Confirms, inbox: Inbox, data: bytes) -> int:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        inbox.fill(ours)
    return confirms.new(inbox)


def test_confirmations_in_any_order_count_each_message_once() -> None:
    confirms, inbox = amqp.Confirms(), Inbox()
    assert count(confirms, inbox, confirm(3) + confirm(1)) == 2
    assert count(confirms, inbox, confirm(4, multiple=True)) == 2
    assert count(confirms, inbox, confirm(4, multiple=True)) == 0
    assert count(confirms, inbox, confirm(5)) == 1
    assert confirms.confirmed == 5


def test_half_a_confirmation_waits_for_its_other_half() -> None:
    confirms, inbox = amqp.Confirms(), Inbox()
    whole = confirm(1)
    assert count(confirms, inbox, whole[:10]) == 0
    assert count(confirms, inbox, whole[10:]) == 1


def test_a_message_that_is_refused_fails_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="did not confirm: method 60, 120"):
        count(amqp.Confirms(), Inbox(), confirm(1, name=(60, 120)))
