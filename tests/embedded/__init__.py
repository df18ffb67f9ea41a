"""Tests of the broker inside a program."""
