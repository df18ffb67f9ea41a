"""The device side of Courier: an outbox that keeps every event until the broker has it.

Plain Python on purpose: no compiler, no `_fast`, no uvloop, so that it installs on any Pi.
"""
