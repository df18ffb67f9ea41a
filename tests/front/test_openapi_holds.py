"""schemathesis against a real broker: what the OpenAPI document allows never ends in a 5xx, and answers keep to it.

A process of its own, because its plugins warn, and warnings are errors here.
"""

import subprocess
import sys
from pathlib import Path

from tests.conftest import StartBroker
from tests.support.process import environment

SECONDS_MAX = 60
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
SEED = "20260219"


def schemathesis(url: str, home: Path) -> subprocess.CompletedProcess[str]:
    """One seeded run over every endpoint."""
    program = Path(sys.executable).with_name("schemathesis")
    options = ["--checks", CHECKS, "--seed", SEED, "--max-examples", "25", "--phases", "examples,coverage,fuzzing"]
    options += ["--generation-deterministic", "--no-color"]
    return subprocess.run(
        [str(program), "run", f"{url}/openapi.json", *options],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        cwd=home,
        env=environment(),
        check=False,
    )


def test_no_request_of_schemathesis_ends_in_a_5xx_or_in_an_answer_that_is_not_described(
    broker_process: StartBroker, tmp_path: Path
) -> None:
    broker = broker_process()
    ended = schemathesis(broker.url, tmp_path)
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    assert "No issues found" in ended.stdout, ended.stdout[-2000:]
    assert not [line for line in broker.stderr_lines if "failed" in line or "Traceback" in line]
    assert broker.terminate_and_wait() == 0
