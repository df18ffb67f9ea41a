from collections.abc import Sequence

Value = int | str | bytes | None

class CommitError(Exception):
    """SQLite refused; the transaction was rolled back. `code` is SQLite's extended result code."""

    code: int

class Written:
    """What became of the events of one batch, in their order."""

    @property
    def seqs(self) -> list[int]:
        """One number for each event: its sequence if it is new, minus the sequence of its original if it
        is a duplicate, 0 if SQLite refused the row itself (a value past its limits), or if it was left out
        because its cause is not new."""

    @property
    def duplicates(self) -> dict[int, tuple[int, bool]]:
        """For the position of each duplicate: when its original was received, and whether the payload differs."""

    @property
    def next_seq(self) -> int:
        """The first sequence that was not used."""

    @property
    def total_bytes(self) -> int:
        """How many bytes of text and blob the batch carried."""

class Committer:
    """Writes whole batches on apsw's own connection, taking the GIL a fixed number of times a batch.

    Construct it on the thread that has just called
    `connection.load_extension(_fast.COMMIT_EXTENSION, "courier_commit_init")`, use it on one thread at a
    time, and close it before the connection.
    """

    def __init__(
        self,
        insert_sql: str,
        duplicate_sql: str,
        update_sql: str,
        link_sql: str,
        hashed: tuple[int, int] | None = None,
        latest: int | None = None,
        in_lanes: bool = False,
    ) -> None:
        """Prepare the four statements. Raise CommitError for SQL that does not prepare, RuntimeError when
        no extension was loaded on this thread, ValueError for parameters that do not fit.

        `insert_sql` gets the sequence as ?1 and the values of the event from ?2 on, and must leave a
        duplicate alone (`ON CONFLICT DO NOTHING`). `duplicate_sql` gets the same parameters and must
        return one row of three integers: sequence, time of reception, whether the payload differs.
        `update_sql` gets the values of one update from ?1 on. `link_sql` gets the sequences of a new event
        and of its cause.

        `hashed` names two values of an event by their places: where the second is None, the SHA-256 of the
        first is written in its stead; `in_lanes` makes it as on a processor without instructions for that.

        `latest` names a value of an update by its place. Updates then begin with an integer, their key, and
        `update_sql` has one parameter more, the last key: those whose keys follow each other and whose values are
        the same objects, but for that one, are run as one, with the largest of it. They are run in the order of
        their keys, those of one key in theirs.
        """

    @property
    def sqlite_version_number(self) -> int:
        """The version of the SQLite library that this connection belongs to, such as 3054001."""

    def write(
        self,
        events: Sequence[tuple[Value, ...]],
        updates: Sequence[tuple[Value, ...]],
        next_seq: int,
        commit: bool,
        causes: Sequence[int] | None = None,
    ) -> Written:
        """Begin a transaction, write the events and the updates, and, if `commit`, commit it.

        `causes` gives for each event the index of its cause, an earlier event, or -1. An event whose cause
        is a duplicate, was refused or was itself left out is left out; one that is new is linked to its cause.

        The GIL is released once around all of it. Raise CommitError, with the transaction rolled back,
        when SQLite refuses; TypeError, with nothing begun, for a value or a key of another type; ValueError, with
        nothing begun, for a cause that is not an earlier event.
        """

    def commit(self) -> None:
        """Commit the transaction that `write` left open. Raise CommitError, with it rolled back."""

    def rollback(self) -> None:
        """Roll back the transaction that `write` left open, if one is."""

    def close(self) -> None:
        """Finalise the statements; the connection cannot be closed before. Twice is harmless."""
