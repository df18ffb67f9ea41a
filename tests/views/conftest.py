"""A real journal for the views, as the journal's own tests have it."""

from tests.journal.conftest import clock, journal, open_journal

__all__ = ["clock", "journal", "open_journal"]
