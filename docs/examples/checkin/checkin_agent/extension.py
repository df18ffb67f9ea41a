"""An agent without a model: it has a question for each step."""

QUESTIONS = ("How are you?", "What did you finish today?", "What comes next?")


class CheckinAgent:
    """Asks."""

    async def invoke(self, request):
        """Ask the question of the step."""
        step, total = request.event.payload["step"], request.event.payload["total"]
        yield f"Check-in {step} of {total}: "
        yield QUESTIONS[(step - 1) % len(QUESTIONS)]
