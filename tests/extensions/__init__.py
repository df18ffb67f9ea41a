"""Tests of extensions."""
