"""Why a round of a source came to nothing."""


class SourceProblem(Exception):
    """What was wrong, where, and what to do; and how long its server asked to be left alone."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
