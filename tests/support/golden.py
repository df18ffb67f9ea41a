"""Golden files: exchanges with a broker whose clock stands where the file says, compared in full.

about       what the file shows, as a sentence
config      of the broker; left out, the defaults
exchanges   in order: at, post, headers, body (JSON) or body_text, then the status and the answer to expect
stored      how many rows the ledger has in the end
rejections  how many rows `rejections` has in the end
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from broker.app import App
from broker.clock import ManualClock
from tests.support.client import JSON, Client

FOLDER = Path(__file__).parents[1] / "golden"


def files(contract: str) -> list[Path]:
    """The golden files of a contract."""
    found = sorted((FOLDER / contract).glob("*.json"))
    assert found, f"no golden files of {contract}"
    return found


def load(path: Path) -> dict[str, Any]:
    """One file."""
    golden: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return golden


async def hold(golden: dict[str, Any], client: Client, clock: ManualClock) -> None:
    """Send every request of a file, at its time; each answer must be the one of the file."""
    for exchange in golden["exchanges"]:
        clock.set_wall_us(int(datetime.fromisoformat(exchange["at"]).timestamp()) * 1_000_000)
        text = exchange.get("body_text")
        data = text.encode() if text is not None else json.dumps(exchange["body"]).encode()
        answer = await client.request("POST", exchange["post"], data=data, headers=JSON | exchange.get("headers", {}))
        assert (answer.status, answer.body) == (exchange["status"], exchange["answer"])


async def rejections(app: App, columns: str = "code") -> list[Any]:
    """Columns of the rows of `rejections`; a single column comes without its tuple."""

    def job(connection: Any) -> list[Any]:
        found = connection.execute(f"SELECT {columns} FROM rejections ORDER BY id").fetchall()
        return [row[0] for row in found] if "," not in columns else found

    return await app.journal.execute(job)
