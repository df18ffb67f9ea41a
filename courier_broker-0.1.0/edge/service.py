"""The systemd unit of the daemon: restarted when it hangs, and shut off from what it need not touch."""

import sys
from pathlib import Path
from typing import Final

from edge.errors import SettingsInvalid

UNIT_PATH: Final = Path("/etc/systemd/system/courier-edge.service")
STATE: Final = Path("/var/lib/courier-edge")
RUNTIME: Final = Path("/run/courier-edge")
WATCHDOG_SECONDS: Final = 30

_UNIT: Final = """\
[Unit]
Description=Courier edge: an outbox for this device's events
Documentation=man:systemd.service(5)
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command} run --config {config}
Environment=COURIER_EDGE_PATH={state}/listener_outbox.db COURIER_EDGE_SOCKET={runtime}/edge.sock
User={user}
Restart=always
RestartSec=2
RestartPreventExitStatus=78
WatchdogSec={watchdog}
TimeoutStopSec=30
StateDirectory=courier-edge
StateDirectoryMode=0700
RuntimeDirectory=courier-edge
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
SystemCallFilter=@system-service
MemoryMax=128M

[Install]
WantedBy=multi-user.target
"""


def unit(user: str, config: Path) -> str:
    """The text of the unit; raise SettingsInvalid for a name that would be something else in it."""
    for name, value in (("user", user), ("config", str(config))):
        if not value or not value.isprintable() or any(character in value for character in " %\"'\\"):
            raise SettingsInvalid(f"{name} is {value!r}; no spaces, quotes, backslashes or %")
    command = Path(sys.argv[0]).absolute()
    program = str(command) if command.name == "courier-edge" else f"{sys.executable} -m edge"
    return _UNIT.format(
        command=program, config=config, user=user, watchdog=WATCHDOG_SECONDS, state=STATE, runtime=RUNTIME
    )
