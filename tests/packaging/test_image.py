"""The image of the broker, without an engine: its file is linted, and what it would run is run."""

import fnmatch
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.process import PATIENCE_SECONDS, environment, until

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / ".ci/Dockerfile"
BIN = Path(sys.executable).parent
Stage = list[tuple[str, str]]


def stages() -> list[Stage]:
    """The instructions of each stage, with their lines joined."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    instructions = [
        (name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines()) if name
    ]
    starts = [index for index, (name, _) in enumerate(instructions) if name == "FROM"]
    return [instructions[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def given(stage: Stage, name: str) -> str:
    """What an instruction that stands once says."""
    (found,) = (rest for each, rest in stage if each == name)
    return found


def variables(stage: Stage) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(given(stage, "ENV")))


def is_sent(path: str) -> bool:
    """Whether a file goes to the engine: the last pattern that is true of it, or of a folder that it is in, decides."""
    sent = True
    for line in FILE.with_name("Dockerfile.dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if line.startswith("#") or not line:
            continue
        parts = Path(path).parts
        places = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
        anywhere = pattern.removeprefix("**/")
        if anywhere != pattern:
            matches = any(fnmatch.fnmatch(part, anywhere) for part in parts)
        else:
            matches = any(
                place.count("/") == pattern.count("/") and fnmatch.fnmatch(place, pattern) for place in places
            )
        if matches:
            sent = line.startswith("!")
    return sent


def test_the_linter_finds_nothing_and_finds_what_is_wrong(tmp_path: Path) -> None:
    linted = subprocess.run([BIN / "hadolint", FILE], capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")
    (tmp_path / "Dockerfile").write_text(FILE.read_text().replace('CMD ["serve"]', "CMD serve"))
    linted = subprocess.run([BIN / "hadolint", tmp_path / "Dockerfile"], capture_output=True, text=True, check=False)
    assert "DL3025" in linted.stdout


def test_the_compiler_stays_behind_and_only_the_installation_is_copied() -> None:
    build, image = stages()
    assert "gcc" in given(build[:2], "RUN")
    assert "apt-get" not in " ".join(rest for _, rest in image)
    assert given(build, "FROM") == f"{given(image, 'FROM')} AS build", "the virtual environment fits one Python only"
    assert given(image, "COPY") == "--from=build /opt/courier /opt/courier"
    assert "--only-binary=:all:" in build[-1][1], "of its requirements nothing is compiled"


def test_it_is_nobody_special_and_keeps_its_data_in_a_volume() -> None:
    _, image = stages()
    user, _, group = given(image, "USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert f"--uid {user} " in given(image, "RUN")
    assert given(image, "VOLUME") == variables(image)["COURIER_DATA"] == "/data"
    assert "--owner=courier --group=courier --mode=0700 /data" in given(image, "RUN")
    assert given(image, "STOPSIGNAL") == "SIGTERM"


def test_all_that_is_built_from_is_sent_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"setup.py", "pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    for package in ("_fast", "broker", "edge"):
        files = (path for path in (ROOT / package).rglob("*") if path.is_file())
        needed |= {str(path.relative_to(ROOT)) for path in files if path.suffix in SOURCES and "_pb2" not in path.name}
    assert [path for path in sorted(needed) if not is_sent(path)] == []
    made = ("_fast/ring.c", "_fast/ring.cpython-311-x86_64-linux-gnu.so", "broker/__pycache__/app.cpython-311.pyc",
            "broker/front/skyra_v1/skyra_pb2.py")  # fmt: skip
    others = (".env", ".git/config", "courier.yaml", "data/courier.db", "docs/index.md", "tests/conftest.py", ".venv/x")
    assert [path for path in (*made, *others) if is_sent(path)] == []


SOURCES = {".py", ".pyx", ".pxd", ".pyi", ".h", ".json", ".proto", ".typed"}


@pytest.fixture
def run_as_told(tmp_path: Path) -> dict[str, str]:
    """The environment of the image, with its volume in this directory and any free port."""
    _, image = stages()
    told = variables(image)
    assert told.pop("PATH") == "/opt/courier/bin:$PATH"
    here = {"COURIER_DATA": str(tmp_path / "data"), "COURIER_SERVER__PORT": "0", "PATH": f"{BIN}:{os.environ['PATH']}"}
    return environment(told | here)


def command(instruction: str) -> list[str]:
    _, image = stages()
    words: list[str] = json.loads(given(image, instruction).partition("CMD ")[2] or given(image, instruction))
    return words


def test_its_command_serves_is_healthy_and_drains_at_the_signal(tmp_path: Path, run_as_told: dict[str, str]) -> None:
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text("- {name: a, token: a-secret, scopes: ['admin:*']}")
    health = command("HEALTHCHECK")
    with subprocess.Popen(
        [*command("ENTRYPOINT"), *command("CMD")],
        env=run_as_told | {"COURIER_AUTH__TOKENS_FILE": str(tokens)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            listens = re.match(r"courier listens on http://0\.0\.0\.0:(\d+),", broker.stdout.readline())
            assert listens is not None
            there = run_as_told | {"COURIER_SERVER__PORT": listens[1]}
            subprocess.run(health, env=there, check=True, timeout=PATIENCE_SECONDS)
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(PATIENCE_SECONDS) == 0
            until(lambda: subprocess.run(health, env=there, capture_output=True, check=False).returncode == 1)
        finally:
            broker.kill()


def test_without_tokens_it_refuses_to_listen_to_everybody(run_as_told: dict[str, str]) -> None:
    words = [*command("ENTRYPOINT"), *command("CMD")]
    refused = subprocess.run(
        words, env=run_as_told, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert refused.returncode == 78
    assert "because there are no auth.tokens" in refused.stderr
