"""How far each pulled source has come, in the table `source_checkpoints`: written with what the cursor is behind of."""

import apsw

from broker.journal.submission import Job

_SAVE = """
INSERT INTO source_checkpoints (source_system, cursor, seq, updated_at)
VALUES (?1, ?2, (SELECT max(seq) FROM ledger), ?3)
ON CONFLICT (source_system) DO UPDATE SET cursor = ?2, seq = excluded.seq, updated_at = ?3
"""


def saving(source_system: str, cursor: str, now_us: int) -> Job:
    """The job that writes a cursor: submitted with the events before it, it is on disk when they are, not before."""

    def job(connection: apsw.Connection) -> None:
        connection.execute(_SAVE, (source_system, cursor, now_us))

    return job
