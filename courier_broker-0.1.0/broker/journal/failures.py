"""What an SQLite result code means for the events that were about to be committed.

    transient   locked, or something that passes: the same batch is tried again (002)
    full        no room: the batch is refused, retryable; the next one may find room again
    fatal       a write, a sync or the file itself failed: after that, a later success proves nothing,
                because the kernel may have dropped the pages that it could not write

Anything that is not known to pass is fatal: stopping is always safe, going on is not.
"""

import enum


class Severity(enum.Enum):
    """How the journal goes on after a failed commit."""

    TRANSIENT = "transient"
    FULL = "full"
    FATAL = "fatal"


_BUSY, _LOCKED, _NOMEM, _INTERRUPT, _FULL, _CANTOPEN, _PROTOCOL = 5, 6, 7, 9, 13, 14, 15
_IOERR = 10
_IOERR_RDLOCK = _IOERR | 9 << 8
_IOERR_UNLOCK = _IOERR | 8 << 8
_IOERR_BLOCKED = _IOERR | 11 << 8
_IOERR_NOMEM = _IOERR | 12 << 8
_IOERR_CHECKRESERVEDLOCK = _IOERR | 14 << 8
_IOERR_LOCK = _IOERR | 15 << 8
_IOERR_SHMSIZE = _IOERR | 19 << 8

_TRANSIENT_PRIMARY = frozenset({_BUSY, _LOCKED, _NOMEM, _INTERRUPT, _CANTOPEN, _PROTOCOL})
_TRANSIENT_EXTENDED = frozenset(
    {_IOERR_RDLOCK, _IOERR_UNLOCK, _IOERR_BLOCKED, _IOERR_NOMEM, _IOERR_CHECKRESERVEDLOCK, _IOERR_LOCK}
)


def code_of(error: Exception) -> int:
    """The extended result code of an apsw error; 0 for one that did not come from SQLite."""
    code: int = getattr(error, "extendedresult", 0)
    return code


def severity(code: int) -> Severity:
    """Classify an extended SQLite result code."""
    if code & 0xFF == _FULL or code == _IOERR_SHMSIZE:
        return Severity.FULL
    if code & 0xFF in _TRANSIENT_PRIMARY or code in _TRANSIENT_EXTENDED:
        return Severity.TRANSIENT
    return Severity.FATAL
