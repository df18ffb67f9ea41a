"""The effect that comes with the broker: the last registration and heartbeat of each game server (001).

Events arrive out of order, so the last one is the one that the plugin emitted last, and not the one that came last.
"""

import apsw
import orjson

from broker.contracts.inbound import InboundEvent

REGISTRATION = "pixel_control.connectivity.plugin_registration"
HEARTBEAT = "pixel_control.connectivity.plugin_heartbeat"


def _upsert(kind: str) -> str:
    later = f"(coalesce({kind}_emitted_at, ''), coalesce({kind}_sequence, 0)) <= (coalesce(?5, ''), coalesce(?6, 0))"
    return f"""
    INSERT INTO pixel_servers
      (dedupe_scope, server_login, plugin_version, {kind}_at, {kind}_emitted_at, {kind}_sequence)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (dedupe_scope, server_login) DO UPDATE SET
      plugin_version = coalesce(?3, plugin_version), {kind}_at = ?4, {kind}_emitted_at = ?5, {kind}_sequence = ?6
    WHERE {later}
    """  # noqa: S608 - the only thing put in is the name of a column


_UPSERTS = {REGISTRATION: _upsert("registration"), HEARTBEAT: _upsert("heartbeat")}


def note_server(cursor: apsw.Cursor, event: InboundEvent) -> None:
    """Note the registration or heartbeat of the server that the event's headers name, if they name one."""
    notes = {} if event.notes is None else orjson.loads(event.notes)
    login = notes.get("server_login")
    if login is None:
        return
    cursor.execute(
        _UPSERTS[event.type],
        (
            event.source_system,
            login,
            notes.get("plugin_version"),
            event.received_at,
            event.source_emitted_at,
            event.source_sequence,
        ),
    )
