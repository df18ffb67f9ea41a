"""Courier: an event broker for one machine. `docs/ARCHITECTURE.md` is the map."""
