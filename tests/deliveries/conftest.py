"""The streams on a ledger in memory."""

from tests.streams.conftest import clock, ledger, registry

__all__ = ["clock", "ledger", "registry"]
