"""Each step puts off the next one, until there are no more."""


class CheckinProcessor:
    """Schedules `checkin.started` for the step after the one that has begun."""

    async def initialize(self, context):
        """Subscribe to the steps."""
        self._ctx = context
        self._ctx.subscribe_event("checkin.started", self._on_checkin)

    async def _on_checkin(self, event):
        step = event.payload.get("step", 1)
        total = event.payload.get("total", 3)
        if step < total:
            payload = {"step": step + 1, "total": total}
            await self._ctx.schedule_at(
                self._ctx.config["seconds"], "checkin.started", payload, correlation_id=event.correlation_id
            )
