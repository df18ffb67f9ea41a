"""Tests of the calls that Courier makes."""
