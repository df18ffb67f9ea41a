"""An agent without a model: it does what the instructions in its manifest say."""


class ReminderAgent:
    """Answers every event with its text."""

    async def invoke(self, request):
        """Answer in pieces, as a model would."""
        yield "Reminder: "
        yield request.event.payload["text"]
