"""An agent without a model, which answers as a whole."""


class TaskAgent:
    """Says that it has the task."""

    async def invoke(self, request):
        """Answer with a text; an agent that has nothing to say returns None."""
        return f"I take on: {request.event.payload['text']}"
