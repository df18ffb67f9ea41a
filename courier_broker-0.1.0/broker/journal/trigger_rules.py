"""The rules that came over the API, as the journal keeps them: an id, and the rule in JSON."""

from typing import Any

import apsw


def load_rules(connection: apsw.Connection) -> list[tuple[str, bytes]]:
    """Every rule, by its id."""
    rows: list[Any] = connection.execute("SELECT id, rule FROM trigger_rules ORDER BY id").fetchall()
    return [(rule_id, rule.encode()) for rule_id, rule in rows]


def put_rule(connection: apsw.Connection, rule_id: str, rule: bytes, now_us: int) -> None:
    """Add a rule, or replace the one of this id."""
    connection.execute(
        "INSERT INTO trigger_rules (id, rule, updated_at) VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET rule = excluded.rule, updated_at = excluded.updated_at",
        (rule_id, rule.decode(), now_us),
    )


def delete_rule(connection: apsw.Connection, rule_id: str) -> None:
    """Remove a rule."""
    connection.execute("DELETE FROM trigger_rules WHERE id = ?", (rule_id,))
