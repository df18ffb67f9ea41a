"""`courier extensions` as a process: what it says, how it ends, what a signal does."""

import json
import signal
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.docs.markdown import ROOT
from tests.extensions.conftest import IT, LISTENS, write
from tests.support.extensions import ExtensionsProcess
from tests.support.process import courier, until
from tests.support.terminal import OnTerminal, courier_on_terminal

EXAMPLES = ROOT / "docs/examples"
CONFIG, USAGE = 78, 2

ECHO = """
class It:
    async def initialize(self, context):
        self.context = context
        context.subscribe_event("user.message", self.on_message)

    async def on_message(self, event):
        await self.context.notify_user(f"%s {event.payload['text']}", event.payload["channel_id"])
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One extension, which repeats what the user writes."""
    write(tmp_path / "extensions", "echo", IT, ECHO % "heard")
    return tmp_path / "extensions"


def test_a_line_of_the_user_is_a_message_and_the_answer_comes_back(root: Path, tmp_path: Path) -> None:
    with ExtensionsProcess(root, tmp_path / "data", "--user", "jen") as running:
        running.say("hello")
        message = running.hear()
        assert message["text"] == "heard hello"
        assert (message["extension_id"], message["channel_id"]) == ("echo", "cli_channel")
        assert message["topic"] == "user.message"
        running.stdin.close()
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
    with closing(apsw.Connection(str(tmp_path / "data/courier.db"))) as connection:
        rows = connection.execute("SELECT topic, source, payload, status FROM event_journal").fetchall()
    ((topic, source, payload, status),) = rows
    assert (topic, source, status) == ("user.message", "cli_channel", "done")
    assert json.loads(payload) == {"text": "hello", "user_id": "jen", "channel_id": "cli_channel"}


def test_what_is_no_line_of_text_is_told_and_left_out(root: Path, tmp_path: Path) -> None:
    said = b"\xff\xfe\n\n   \n" + b"x" * (1024 * 1024 + 1) + b"\nhello\n"
    ended = courier("extensions", "run", str(root), "--data", "data", "-n", "1", stdin=said, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert [json.loads(line)["text"] for line in ended.stdout.splitlines()] == ["heard hello"]
    assert b"courier: line 1 is not UTF-8, and was left out" in ended.stderr
    assert b"courier: line 4 is too long, and was left out" in ended.stderr


def test_the_end_of_a_pipe_does_not_end_it_and_a_signal_does(root: Path, tmp_path: Path) -> None:
    with ExtensionsProcess(root, tmp_path / "data", "--http", "--port", "0") as running:
        running.stdin.close()
        url = running.stderr.partition("courier listens on ")[2].partition('"')[0]
        payload = '{"text": "over http", "user_id": "tom", "channel_id": "cli_channel"}'
        published = courier("pub", "topics/user.message", payload, "--url", url)
        assert published.returncode == 0, published.stderr
        assert running.hear()["text"] == "heard over http"
        running.signal(signal.SIGINT)
        assert running.wait() == 0


def test_on_a_terminal_lines_are_for_people_and_ctrl_d_ends_it(root: Path, tmp_path: Path) -> None:
    command = ("extensions", "run", str(root), "--data", str(tmp_path / "data"))
    with courier_on_terminal(*command, env={"COURIER_LOG__LEVEL": "warning"}) as running:
        running.typed("hello \x1b[31mred\n")
        running.until("echo: heard hello \\u001b[31mred\r\n")
        running.typed("\x04")
        code, shown = running.end()
    assert code == 0, shown


CONTROLLED = "import os, fcntl, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp('bash', {})"
"""Begins a shell whose terminal controls it, as a person's does."""


def test_in_the_background_of_a_terminal_it_does_not_read_it(root: Path, tmp_path: Path) -> None:
    """A process that did would be stopped."""
    run = f"{sys.executable} -m broker extensions run {root} --data {tmp_path / 'data'} 2> log"
    script = f"set -m; {run} & until grep -q runs log; do sleep 0.1; done; kill -TERM %1; wait %1; echo ended $?"
    shell = [sys.executable, "-c", CONTROLLED.format(["bash", "-c", script])]
    with OnTerminal(shell, cwd=tmp_path) as running:
        code, shown = running.end()
    assert (code, shown.splitlines()[-1]) == (0, "ended 0")


def test_an_answer_is_shown_in_pieces_on_a_terminal_and_says_where_it_breaks_off(tmp_path: Path) -> None:
    code = """
    class It:
        async def invoke(self, request):
            yield "half an "
            yield "answer"
            raise ValueError("gone")
    """
    write(tmp_path / "extensions", "ext", IT + "agent: {}\n" + LISTENS % ("user.message", "invoke_agent"), code)
    command = ("extensions", "run", str(tmp_path / "extensions"), "--data", str(tmp_path / "data"))
    with courier_on_terminal(*command) as running:
        running.typed("hello\n")
        running.until("ext: half an answer … (it breaks off here)\r\n")
        running.until("ext.invoke_agent")
        running.interrupt()
        assert running.end()[0] == 0


def test_a_broken_extension_is_told_and_the_others_run(root: Path, tmp_path: Path) -> None:
    write(root, "broken", IT, "import nowhere\n")
    ended = courier("extensions", "run", str(root), "--data", "data", "-n", "1", stdin=b"hello\n", cwd=tmp_path)
    assert ended.returncode == 0
    assert b"broken/extension.py:1: import: ModuleNotFoundError: No module named 'nowhere'" in ended.stderr


def test_without_one_that_can_run_it_ends_with_the_code_for_that(tmp_path: Path) -> None:
    write(tmp_path / "extensions", "broken", IT, "import nowhere\n")
    ended = courier("extensions", "run", "extensions", cwd=tmp_path)
    assert ended.returncode == CONFIG
    assert b"courier: extensions: none of its extensions can run\n" in ended.stderr
    assert courier("extensions", "run", "nowhere", cwd=tmp_path).returncode == CONFIG


def test_sighup_reloads_what_has_changed(root: Path, tmp_path: Path) -> None:
    with ExtensionsProcess(root, tmp_path / "data") as running:
        running.say("one")
        assert running.hear()["text"] == "heard one"
        write(root, "echo", IT, ECHO % "understood")
        running.signal(signal.SIGHUP)
        until(lambda: "the extensions were reloaded" in running.stderr)
        running.say("two")
        assert running.hear()["text"] == "understood two"
        running.signal(signal.SIGTERM)
        assert running.wait() == 0


def test_sighup_before_everything_runs_does_not_end_it_and_reloads_then(root: Path, tmp_path: Path) -> None:
    code = """
    import os, signal
    os.kill(os.getpid(), signal.SIGHUP)
    """
    write(root, "impatient", "{}", code)
    with ExtensionsProcess(root, tmp_path / "data") as running:
        until(lambda: "the extensions were reloaded" in running.stderr or running.process.poll() is not None)
        running.say("one")
        assert running.hear()["text"] == "heard one"
        running.signal(signal.SIGTERM)
        assert running.wait() == 0


def test_a_watched_directory_needs_no_signal(root: Path, tmp_path: Path) -> None:
    with ExtensionsProcess(root, tmp_path / "data", "--watch") as running:
        write(root, "echo", IT, ECHO % "understood")
        until(lambda: "extension echo was replaced" in running.stderr)
        running.say("two")
        assert running.hear()["text"] == "understood two"
        running.signal(signal.SIGTERM)
        assert running.wait() == 0


def test_a_reader_that_goes_away_ends_it_and_what_was_not_told_is_a_dead_letter(root: Path, tmp_path: Path) -> None:
    with ExtensionsProcess(root, tmp_path / "data") as running:
        running.stdout.close()
        running.say("hello")
        assert running.wait() == 0
    with closing(apsw.Connection(str(tmp_path / "data/courier.db"))) as connection:
        ((status, error),) = connection.execute("SELECT status, error FROM event_journal").fetchall()
    assert (status, "BrokenPipeError" in error) == ("failed", True)


def test_a_check_names_every_problem_and_its_exit_code_says_so(root: Path, tmp_path: Path) -> None:
    ended = courier("extensions", "check", "extensions", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, b"extensions/echo: ok (echo)\n")
    write(root, "broken", "event: {}\n", "def f(:\n")
    write(root, "off", "enabled: false\n")
    ended = courier("extensions", "check", "extensions", cwd=tmp_path)
    assert ended.returncode == CONFIG
    assert ended.stdout.decode().splitlines() == ["extensions/echo: ok (echo)", "extensions/off: ok (off, not enabled)"]
    assert ended.stderr.decode().splitlines() == [
        "courier: extensions/broken/manifest.yaml:1: event: unknown key; did you mean events?",
        "courier: extensions/broken/extension.py:1: SyntaxError: invalid syntax",
    ]
    assert courier("extensions", "check", "nowhere", cwd=tmp_path).returncode == CONFIG


def test_a_check_survives_what_the_parser_of_python_does_not_take(root: Path, tmp_path: Path) -> None:
    write(root, "deep", "{}", f"x = {'-' * 200_000}1\n")
    ended = courier("extensions", "check", "extensions", cwd=tmp_path)
    assert ended.returncode == CONFIG
    assert ended.stdout == b"extensions/echo: ok (echo)\n"
    assert ended.stderr == b"courier: extensions/deep/extension.py: cannot be read: is nested too deep for Python\n"


@pytest.mark.parametrize("options", [["--port", "0"], ["-n", "0"], []])
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: list[str]) -> None:
    directory = ["extensions"] if options else []
    assert courier("extensions", "run", *directory, *options, cwd=tmp_path).returncode == USAGE


def test_a_configuration_with_problems_is_refused(root: Path, tmp_path: Path) -> None:
    ended = courier("extensions", "run", str(root), env={"COURIER_SERVER__PORT": "x"}, cwd=tmp_path)
    assert ended.returncode == CONFIG


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_the_examples_pass_the_check(name: str) -> None:
    ended = courier("extensions", "check", str(EXAMPLES / name))
    assert ended.returncode == 0, ended.stderr
