"""The systemd unit of the broker: restarted when its commits hang, and shut off from what it need not touch.

As a service of the system it has a user of its own that systemd makes up (DynamicUser). A service of one user cannot be
shut off by mounts and capabilities, which need privileges; the filters of system calls need none.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker.config.grammar import directory_problem
from broker.errors import ConfigError

NAME: Final = "courier.service"
SYSTEM: Final = Path("/etc/systemd/system")
WATCHDOG_SECONDS: Final = 60
"""An SD card that tidies up can take seconds for a sync. Past this, it does not come back by itself."""

STOP_MARGIN_SECONDS: Final = 15
"""What a stop may take besides the drain, before systemd kills."""

_UNIT: Final = """\
[Unit]
Description=Courier, an event broker
Documentation=man:systemd.service(5)
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
ExecReload=kill -HUP $MAINPID
Environment=COURIER_DATA=%S/courier COURIER_AUTH__TOKENS_FILE=%d/tokens
LoadCredential=tokens:{tokens}
SetCredential=tokens:[]
WorkingDirectory=%S/courier
Restart=always
RestartSec=2
RestartPreventExitStatus=78
WatchdogSec={watchdog}
TimeoutStartSec=infinity
TimeoutStopSec={stop}
StateDirectory=courier
StateDirectoryMode=0700
UMask=0077
LimitNOFILE=65536
NoNewPrivileges=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
{system}
[Install]
WantedBy={target}
"""

_SYSTEM: Final = """\
DynamicUser=yes
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
ProtectProc=invisible
CapabilityBoundingSet=
"""


def unit(program: Sequence[str], config: Path | None, tokens: Path | None, drain_ms: int, *, for_user: bool) -> str:
    """The text of the unit; raise ConfigError for a path that would be something else in it."""
    command = [*program, "serve", *([] if config is None else ["--config", str(config)])]
    problems = [
        f"the unit cannot hold the path {path!r}: {problem}"
        for path in (*command, *([] if tokens is None else [str(tokens)]))
        if (problem := _problem(path)) is not None
    ]
    if problems:
        raise ConfigError(problems)
    return _UNIT.format(
        command=" ".join(command),
        tokens="%E/courier/tokens.yaml" if tokens is None else tokens,
        watchdog=WATCHDOG_SECONDS,
        stop=-(-drain_ms // 1000) + STOP_MARGIN_SECONDS,
        system="" if for_user else _SYSTEM,
        target="default.target" if for_user else "multi-user.target",
    )


def _problem(path: str) -> str | None:
    if any(character in path for character in " %$:;\"'\\"):
        return "spaces, quotes, backslashes and % $ : ; mean something else to systemd"
    return directory_problem(path)
