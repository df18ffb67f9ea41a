"""Logging: lines for a person on a terminal, JSON for a machine."""

import io
import logging
from collections.abc import Iterator

import orjson
import pytest

from broker.logs import HumanFormatter, JsonFormatter, set_up


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


def test_styles_can_be_asked_for_anywhere() -> None:
    for style, stream, is_json in [("json", Terminal(), True), ("human", io.StringIO(), False)]:
        set_up("info", style, stream)
        logging.getLogger("broker.app").info("started")
        assert stream.getvalue().startswith("{") is is_json


@pytest.mark.parametrize(
    "value", ["\udcff", "two\nlines", "\x00", 2**70, float("nan"), object, {"a": {1: 2}}, b"\xff", ["\ud800"]]
)
def test_whatever_is_logged_is_one_line_of_json(value: object) -> None:
    stream = io.StringIO()
    set_up("info", "json", stream)
    logging.getLogger("broker").info("got %s", value, extra={"value": value})
    (line,) = stream.getvalue().splitlines()
    assert orjson.loads(line)["message"].startswith("got ")


def test_extra_does_not_replace_what_every_line_has() -> None:
    stream = io.StringIO()
    set_up("info", "json", stream)
    logging.getLogger("broker.app").info("started", extra={"level": 7, "ts": 0, "logger": "x", "exception": "none"})
    line = orjson.loads(stream.getvalue())
    assert (line["level"], line["logger"], line["message"]) == ("info", "broker.app", "started")
    assert line["ts"] != 0


def test_a_record_is_the_same_after_it_was_written() -> None:
    record = logging.makeLogRecord({"name": "broker.app", "msg": "started"})
    assert "app  started" in HumanFormatter().format(record)
    assert record.name == "broker.app"
    assert json_line(record)["logger"] == "broker.app"


def json_line(record: logging.LogRecord) -> dict[str, object]:
    line: dict[str, object] = orjson.loads(JsonFormatter().format(record))
    return line
