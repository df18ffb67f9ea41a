"""schemathesis against a real broker: what the OpenAPI document allows never ends in a 5xx, and answers keep to it.

A process of its own, because its plugins warn, and warnings are errors here.
"""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from broker.front.endpoints import ENDPOINTS
from tests.conftest import Connect, StartBroker
from tests.support.client import Client
from tests.support.process import environment

SECONDS_MAX = 60
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def schemathesis(url: str, home: Path) -> subprocess.CompletedProcess[str]:
    """One run over every endpoint, the same every time."""
    program = Path(sys.executable).with_name("schemathesis")
    options = ["--checks", CHECKS, "--max-examples", "25", "--phases", "examples,coverage,fuzzing"]
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


async def leave_dead_letters(client: Client) -> None:
    """Events that the examples of the document name: 1 to 3 are dead letters, 4 waits."""
    await client.enqueue_all("e-91a", "e-2", "e-3", "e-4")
    async with client.subscribe() as subscriber:
        await subscriber.credit(3)
        for event_id in await subscriber.ids(3):
            await subscriber.send(nack=event_id)
        await subscriber.settled()


async def test_no_request_of_schemathesis_ends_in_a_5xx_or_in_an_answer_that_is_not_described(
    broker_process: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    broker = broker_process(config={"streams": {"maxDeliveries": 1}})
    await leave_dead_letters(await connect(broker.url))
    ended = await asyncio.to_thread(schemathesis, broker.url, tmp_path)
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    operations, cases = re.findall(r"Tested: (\d+)|(\d+) generated, \2 passed", ended.stdout)
    over_http = [endpoint.path for endpoint in ENDPOINTS if not endpoint.is_socket]
    assert int(operations[0]) == len(over_http) - 1, "all but the document itself, which schemathesis leaves out"
    assert int(cases[1]) > 500
    assert not [line for line in broker.stderr_lines if "broker.front" in line], "an error of the broker's own"
    assert broker.terminate_and_wait() == 0
