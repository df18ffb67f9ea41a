"""Begins the chain of deferred events of the three flows."""


class CheckinTrigger:
    """Emits the first step."""

    async def initialize(self, context):
        """Subscribe to what the user writes."""
        self._ctx = context
        self._ctx.subscribe_event("user.message", self._on_message)

    async def _on_message(self, event):
        await self._ctx.emit("checkin.started", {"step": 1, "total": 3}, correlation_id=f"checkin-{event.id}")
