"""What the bus counts, since its start."""


class Tally:
    """Plain numbers, counted on the loop."""

    def __init__(self) -> None:
        self.handled = 0
        """Events that all handlers are through with and succeeded."""
        self.failed = 0
        """Events that a handler failed for good."""
        self.retried = 0
        """How often an event went to wait for its next try."""
        self.errors = 0
        """How often a handler raised, or took too long."""
