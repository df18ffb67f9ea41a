"""Tests of the event bus."""
