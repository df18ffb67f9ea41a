"""What the scheduler counts, since its start."""

from _fast import Histogram


class Tally:
    """Plain numbers, counted on the loop."""

    def __init__(self) -> None:
        self.put_off = 0
        self.repeated = 0
        """How often something was to be put off that had been already."""
        self.fired = 0
        self.cancelled = 0
        self.refused = 0
        """How often an event that was due was not taken, and had to wait again."""
        self.passed_over = 0
        """How many runs of what recurs were missed, and not made up for."""
        self.late_us = Histogram()
        """From when an event was due to when it was in its stream."""
