"""What ends a benchmark: a figure of a run that lost, doubled or altered something would be worth nothing."""


class BenchmarkFailed(Exception):
    """A run that does not count; the message says what was wrong with it."""


class NotInstalled(Exception):
    """A contender that this machine does not have; the message says how to get it."""
