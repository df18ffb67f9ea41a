"""Logging: lines for a person on a terminal, JSON for a machine."""

import io
import logging
from collections.abc import Iterator

import orjson
import pytest

from broker.logs import set_up


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_on_a_terminal_a_line_is_for_a_person() -> None:
    stream = Terminal()
    set_up("info", "auto", stream)
    logging.getLogger("broker.journal.writer").warning("the %s is full", "disk")
    assert stream.getvalue().split()[1:] == ["WARNING", "journal.writer", "the", "disk", "is", "full"]


def test_elsewhere_a_line_is_json_with_what_extra_brought() -> None:
    stream = io.StringIO()
    set_up("info", "auto", stream)
    logging.getLogger("broker.app").info("started", extra={"pending": 3})
    line = orjson.loads(stream.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {"level": "info", "logger": "broker.app", "message": "started", "pending": 3}


def test_an_exception_is_part_of_its_line() -> None:
    stream = io.StringIO()
    set_up("info", "json", stream)
    try:
        raise ValueError("no good")
    except ValueError:
        logging.getLogger("broker").exception("it failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: no good" in orjson.loads(line)["exception"]


def test_what_is_below_the_level_is_not_said() -> None:
    stream = io.StringIO()
    set_up("error", "human", stream)
    logging.getLogger("broker").warning("never mind")
    assert stream.getvalue() == ""
