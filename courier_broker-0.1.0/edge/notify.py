"""What systemd is told: ready, alive, stopping (sd_notify, as a datagram to the socket that it names)."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping


class Notifier:
    """Speaks to the service manager, if there is one."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        interval = environment.get("WATCHDOG_USEC", "")
        self.watchdog_seconds = int(interval) / 1_000_000 if interval.isdigit() and self._address else None

    def tell(self, message: str) -> None:
        """Send a message such as `READY=1`. Nobody may be listening, which is no error."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            try:
                sender.sendto(message.encode(), address)
            except OSError:
                return

    async def keep_alive(self, check: Callable[[], Awaitable[object]]) -> None:
        """Feed the watchdog at half its interval, each time after `check`: a thread that hangs must not look alive."""
        if self.watchdog_seconds is None:
            return
        while True:
            await check()
            self.tell("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_seconds / 2)
