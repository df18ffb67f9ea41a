"""The `console` blocks of a page, run against a real broker.

    $ a command           run as it stands; `courier` is `python -m broker` of this tree
    > its next line       joined to the command
    what it prints        compared, line by line
    $ echo $?             the exit code of the command before; without it, that must be 0

Port 8787 stands for the port of the broker under test, and `make serve` for the lines that it printed when it started.
Some things differ from run to run and are therefore compared by their form: a time with its milliseconds, that of a
receipt, the one in front of a log line, and an id that the broker's client made up (`e-` and 16 hexadecimal digits).
The same made-up id must still be the same wherever the page shows it again.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.markdown import blocks
from tests.support.process import PATIENCE_SECONDS, BrokerProcess, environment

HOST = "127.0.0.1:8787"
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_TIME_OF_RECEIPT = re.compile(r"""(?:(?<="ack_ts":")|(?<="received_at":"))\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ""")
_LOG_TIME = re.compile(r"^\d\d:\d\d:\d\d (?=[A-Z]+ )")
_MADE_UP_ID = re.compile(r"\be-[0-9a-f]{16}\b")


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
        self._ids: dict[str, str] = {}

    def of(self, line: str) -> str:
        """A line with TIME and ID-1, ID-2, … in place of times and made-up ids."""
        named = _MADE_UP_ID.sub(lambda match: self._ids.setdefault(match[0], f"ID-{len(self._ids) + 1}"), line)
        return _LOG_TIME.sub("TIME ", _TIME.sub("TIME", _TIME_OF_RECEIPT.sub("TIME", named)))


class Console:
    """A shell of few words beside one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._code = 0

    def run(self, command: str) -> list[str]:
        """The lines that a command prints, on stdout or stderr, with the address as the page has it."""
        if command == "echo $?":
            printed, self._code = [str(self._code)], 0
            return printed
        assert self._code == 0, f"before {command!r}, a command ended with {self._code}"
        if command == "make serve":
            lines = [*self._broker.stderr_lines, *self._broker.stdout_lines]
            return [line.replace(f"{self._broker.data}/", "data/").replace(self._host, HOST) for line in lines]
        program, *arguments = shlex.split(command.replace(HOST, self._host))
        start = [sys.executable, "-m", "broker"] if program == "courier" else [program]
        ended = subprocess.run(
            [*start, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment({"COURIER_URL": self._broker.url, "COLUMNS": "80"}),
            cwd=self._broker.data.parent,
            timeout=PATIENCE_SECONDS,
            text=True,
            check=False,
        )
        self._code = ended.returncode
        return ended.stdout.replace(self._host, HOST).splitlines()

    @property
    def _host(self) -> str:
        return f"127.0.0.1:{self._broker.port}"


def assert_page_is_true(page: Path, broker: BrokerProcess) -> None:
    """Run every command of a page; each must print what the page says."""
    console, said, happened = Console(broker), Forms(), Forms()
    for step in steps(page):
        found = [happened.of(line) for line in console.run(step.command)]
        assert found == [said.of(line) for line in step.output], f"$ {step.command}"
    assert console.run("echo $?") == ["0"]
