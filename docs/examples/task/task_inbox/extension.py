"""Publishes a task for each message: the immediate publish of the three flows."""


class TaskInbox:
    """Emits `task.received`, and `alert.urgent` for what cannot wait."""

    async def initialize(self, context):
        """Subscribe to what the user writes."""
        self._ctx = context
        self._ctx.subscribe_event("user.message", self._on_message)

    async def _on_message(self, event):
        text = event.payload["text"]
        if text.startswith("urgent"):
            await self._ctx.emit("alert.urgent", {"text": f"an urgent task came in: {text}"})
        await self._ctx.emit("task.received", {"text": text}, correlation_id=f"message-{event.id}")
