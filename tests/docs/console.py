"""The `console` blocks of a page, run against a real broker, on a terminal: a page shows what its reader sees.

    $ a command           run by bash as it stands; `courier` is `python -m broker` of this tree
    > its next line       joined to the command
    what it prints        compared, line by line; … stands for anything within a line
    $ echo $?             the exit code of the command before; without it, that must be 0

The terminal is a dumb one of 120 columns, so that there is no colour. Port 8787 stands for the port of the broker under
test, and `make serve` for the lines that it printed when it started. A page may also run its own broker, which
`courier serve --config FILE > broker.log 2>&1 &` starts, `kill %1`, `kill -9 %1` and `kill -HUP %1` signal, and which
the next such line starts again.

What differs from run to run is compared by its form: a time with its milliseconds, that of a receipt, the time in front
of a log line, how long something took, how wide the columns of a table are, an id that the client made up (`e-` and 20
hexadecimal digits), a token and its hash. The same id, token or hash must still be the same wherever the page shows it
again, and a command that names one is run with the real one.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.docs.markdown import blocks
from tests.support.process import BrokerProcess
from tests.support.terminal import OnTerminal

HOST = "127.0.0.1:8787"
COLUMNS = 120
ANYTHING = "…"
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_TIME_OF_RECEIPT = re.compile(r"""(?:(?<="ack_ts":")|(?<="received_at":"))\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ""")
_LOG_TIME = re.compile(r"^\d\d:\d\d:\d\d (?=[A-Z]+ )")
_DURATION = re.compile(r" +\d+(?:\.\d)? (?:ms|s|min)\b")
_COLUMN_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
_MADE_UP = re.compile(r"\be-[0-9a-f]{20}\b|\bcourier_[\w-]{43}|\bsha256:[0-9a-f]{64}\b")


class Step(NamedTuple):
    """A command and what it prints."""

    command: str
    output: list[str]


def steps(page: Path) -> Iterator[Step]:
    """Every command of the console blocks of a page, in order."""
    for block in blocks(page, "console"):
        assert block.text.startswith("$ "), f"a console block starts with a command: {block.text!r}"
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            first, *rest = part.splitlines()
            more = [line[2:] for line in rest if line.startswith("> ")]
            yield Step("\n".join([first, *more]), rest[len(more) :])


class Forms:
    """Replaces what differs from run to run; one for what the page says, another for what happened."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """What was made up, in the order in which it was met first."""

    def of(self, line: str) -> str:
        """A line with TIME, DURATION and MADE-UP-1, MADE-UP-2, … in place of what differs."""
        named = _MADE_UP.sub(lambda found: self.names.setdefault(found[0], f"MADE-UP-{len(self.names) + 1}"), line)
        timeless = _TIME.sub("TIME", _TIME_OF_RECEIPT.sub("TIME", named))
        return _COLUMN_GAP.sub("  ", _DURATION.sub(" DURATION", _LOG_TIME.sub("TIME ", timeless)))


class Console:
    """A shell beside one broker."""

    def __init__(self, broker: BrokerProcess | None, home: Path | None = None) -> None:
        self._broker = broker
        self._home = home or (broker.data.parent if broker is not None else Path.cwd())
        self._code = 0

    def run(self, command: str) -> list[str]:
        """The lines that a command prints, on stdout or stderr, with the address as the page has it."""
        if command == "echo $?":
            printed, self._code = [str(self._code)], 0
            return printed
        assert self._code == 0, f"before {command!r}, a command ended with {self._code}"
        if command == "make serve":
            return self._start_lines()
        if command.startswith("courier serve ") and command.endswith(" > broker.log 2>&1 &"):
            self._start(command)
            return []
        if command in ("kill %1", "kill -9 %1", "kill -HUP %1"):
            self._signal(command)
            return []
        terminal = OnTerminal(
            ["bash", "-c", command.replace(HOST, self._host)],
            columns=COLUMNS,
            stdin=subprocess.DEVNULL,
            env={"TERM": "dumb", "COURIER_URL": f"http://{self._host}", "PATH": f"{self._bin()}:{os.environ['PATH']}"},
            cwd=self._home,
        )
        with terminal:
            self._code, printed_text = terminal.end()
        return printed_text.replace(self._host, HOST).splitlines()

    def close(self) -> None:
        """Leave nothing of a broker that the page has started."""
        if self._broker is not None:
            self._broker.close()

    def _start_lines(self) -> list[str]:
        assert self._broker is not None
        lines = [*self._broker.stderr_lines, *self._broker.stdout_lines]
        return [line.replace(f"{self._broker.data}/", "data/").replace(self._host, HOST) for line in lines]

    def _start(self, command: str) -> None:
        arguments = shlex.split(command.removesuffix(" > broker.log 2>&1 &"))
        assert arguments[:3] == ["courier", "serve", "--config"], command
        assert len(arguments) == 4, command
        file = self._home / arguments[3]
        data = self._home / yaml.safe_load(file.read_text())["data"]
        self.close()
        self._broker = BrokerProcess(data, file=file)

    def _signal(self, command: str) -> None:
        assert self._broker is not None
        if command == "kill -9 %1":
            self._broker.kill()
        elif command == "kill %1":
            assert self._broker.terminate_and_wait() == 0
        else:
            self._broker.signal(signal.SIGHUP)
            self._broker.until_it_says("the configuration was reloaded")

    def _bin(self) -> Path:
        """A directory in which `courier` is the program of this tree."""
        directory = self._home / "bin"
        if not directory.exists():
            directory.mkdir()
            (directory / "courier").write_text(f'#!/bin/sh\nexec {sys.executable} -m broker "$@"\n')
            (directory / "courier").chmod(0o755)
        return directory

    @property
    def _host(self) -> str:
        return HOST if self._broker is None else f"127.0.0.1:{self._broker.port}"


def assert_page_is_true(page: Path, broker: BrokerProcess | None, home: Path | None = None) -> None:
    """Run every command of a page; each must print what the page says."""
    console, said, happened = Console(broker, home), Forms(), Forms()
    try:
        for step in steps(page):
            real = {name: text for text, name in happened.names.items()}
            command = _MADE_UP.sub(
                lambda found, real=real: real.get(said.names.get(found[0], ""), found[0]), step.command
            )
            found = [happened.of(line) for line in console.run(command)]
            expected = [said.of(line) for line in step.output]
            assert [_same(*pair) for pair in zip(expected, found, strict=False)] == expected, (
                f"$ {step.command}\n" + "\n".join(found)
            )
            assert len(found) == len(expected), f"$ {step.command}\n" + "\n".join(found)
        assert console.run("echo $?") == ["0"]
    finally:
        console.close()


def _same(expected: str, found: str) -> str:
    """What was expected if that is what was found, else what was found."""
    pattern = ".*".join(re.escape(part) for part in expected.split(ANYTHING))
    return expected if re.fullmatch(pattern, found) else found
