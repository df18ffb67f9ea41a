"""Puts off what the user writes: the deferred publish of the three flows."""


class Reminder:
    """Schedules `reminder.due` for each message of the user."""

    async def initialize(self, context):
        """Subscribe to what the user writes."""
        self._ctx = context
        self._ctx.subscribe_event("user.message", self._on_message)

    async def _on_message(self, event):
        payload = {"text": event.payload["text"], "channel_id": event.payload["channel_id"]}
        await self._ctx.schedule_at(self._ctx.config["seconds"], "reminder.due", payload)
