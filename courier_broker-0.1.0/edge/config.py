"""The settings of `courier-edge`: a TOML file, the environment, and flags; the later one wins.

Every setting has a name of one word or two. In the file it is a key, in the environment `COURIER_EDGE_` and the name in
capitals, on the command line a flag. TOML, because Python reads it by itself.
"""

import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from edge.backoff import Backoff
from edge.edge import Edge
from edge.errors import SettingsInvalid
from edge.event import checked_device_id
from edge.limits import (
    ANSWER_SECONDS_DEFAULT,
    BACKOFF_BASE_SECONDS_DEFAULT,
    BACKOFF_CAP_SECONDS_DEFAULT,
    CONFIG_FILE_BYTES_MAX,
    CONNECT_BASE_SECONDS_DEFAULT,
    CONNECT_CAP_SECONDS_DEFAULT,
    INTAKE_PORT_DEFAULT,
    OUTBOX_BYTES_DEFAULT,
    OUTBOX_ROWS_DEFAULT,
    SLOW_BASE_SECONDS_DEFAULT,
    SLOW_CAP_SECONDS_DEFAULT,
    WINDOW_DEFAULT,
)
from edge.outbox import checked_lane
from edge.sender import Pace
from edge.storage import FILE_NAME
from edge.store import Bounds

DEFAULT_FILE = Path("/etc/courier-edge.toml")
PREFIX = "COURIER_EDGE_"


def _setting(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Settings:
    """What `courier-edge` can be told."""

    url: str = _setting(
        "ws://127.0.0.1:8787",
        "The broker. `ws` and `wss` keep a socket, `http` and `https` post; with `/plugin/events`, plugins' envelopes.",
    )
    token: str = _setting("", "The token, if the broker asks for one.")
    token_file: str = _setting("", "A file that holds the token, and nothing else.")
    ca_file: str = _setting("", "The certificates of a private CA, in PEM.")
    device_id: str = _setting("", "The name of this device. [default: the host's name]")
    path: str = _setting(FILE_NAME, "The file of the outbox.")
    max_rows: int = _setting(OUTBOX_ROWS_DEFAULT, "How many events the outbox may hold.")
    max_bytes: int = _setting(OUTBOX_BYTES_DEFAULT, "How many bytes the events in it may have.")
    when_full: str = _setting("reject", "`reject` refuses a new event; `drop-oldest` drops the oldest of its lane.")
    when_damaged: str = _setting(
        "set-aside", "`set-aside` keeps a damaged file under another name and begins anew; `refuse` does not start."
    )
    window: int = _setting(WINDOW_DEFAULT, "How many events may be unanswered; the broker's window, if smaller.")
    new_share: float = _setting(0.5, "The share of new events while a backlog is sent, from 0 to 1.")
    retry_base: float = _setting(BACKOFF_BASE_SECONDS_DEFAULT, "Seconds: the first step of an event's backoff.")
    retry_cap: float = _setting(BACKOFF_CAP_SECONDS_DEFAULT, "Seconds: the last step of an event's backoff.")
    connect_base: float = _setting(CONNECT_BASE_SECONDS_DEFAULT, "Seconds: the first step between connections.")
    connect_cap: float = _setting(CONNECT_CAP_SECONDS_DEFAULT, "Seconds: the last step between connections.")
    rejected_base: float = _setting(SLOW_BASE_SECONDS_DEFAULT, "Seconds: the first step for a refused event.")
    rejected_cap: float = _setting(SLOW_CAP_SECONDS_DEFAULT, "Seconds: the last step for a refused event.")
    answer_timeout: float = _setting(ANSWER_SECONDS_DEFAULT, "Seconds in which the broker must answer.")
    host: str = _setting("127.0.0.1", "Where the HTTP intake listens: a loopback address.")
    port: int = _setting(INTAKE_PORT_DEFAULT, "The port of the HTTP intake; 0 is any free one, -1 is none.")
    socket: str = _setting("", "The Unix socket of the daemon. [default: the outbox's name and `.sock`]")
    log_level: str = _setting("info", "`debug`, `info`, `warning` or `error`.")
    lanes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name: `max_rows`, `max_bytes` and `when_full` of a lane. Only in the file."""

    def __post_init__(self) -> None:
        if self.host not in ("127.0.0.1", "::1", "localhost"):
            raise SettingsInvalid(
                f"host is {self.host!r}; the intake asks for no token, so it listens on loopback only"
            )
        if not -1 <= self.port <= 65_535:
            raise SettingsInvalid(f"port is {self.port}; between -1 and 65535")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise SettingsInvalid(f"log_level is {self.log_level!r}; debug, info, warning or error")

    @property
    def socket_path(self) -> Path:
        """Where the Unix socket is."""
        return Path(self.socket or f"{self.path}.sock")

    @property
    def device(self) -> str:
        """The name of this device."""
        return checked_device_id(self.device_id or socket.gethostname())

    def bounds(self) -> Bounds:
        """What the outbox may hold."""
        return _bounds({"max_rows": self.max_rows, "max_bytes": self.max_bytes, "when_full": self.when_full}, "")

    def lane_bounds(self) -> dict[str, Bounds]:
        """What each lane may hold that the file names."""
        outer = {"max_rows": self.max_rows, "max_bytes": self.max_bytes, "when_full": self.when_full}
        return {checked_lane(name): _bounds({**outer, **given}, f"lanes.{name}.") for name, given in self.lanes.items()}

    def pace(self) -> Pace:
        """How the sender goes about it."""
        return Pace(
            window=self.window,
            new_share=self.new_share,
            retry=Backoff(self.retry_base, self.retry_cap),
            connect=Backoff(self.connect_base, self.connect_cap),
            slow=Backoff(self.rejected_base, self.rejected_cap, 0.5),
            answer_seconds=self.answer_timeout,
        )

    def read_token(self) -> str | None:
        """The token, from its file if there is one."""
        if not self.token_file:
            return self.token or None
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsInvalid(f"token_file: {self.token_file} cannot be read: {error}") from None

    def edge(self) -> Edge:
        """The edge that these settings describe."""
        return Edge(
            self.url,
            path=self.path,
            device_id=self.device,
            token=self.read_token(),
            ca_file=self.ca_file or None,
            bounds=self.bounds(),
            lanes=self.lane_bounds(),
            when_damaged=self.when_damaged,
            pace=self.pace(),
        )


FIELDS = {each.name: each for each in fields(Settings) if each.name != "lanes"}
_LANE_KEYS = {"max_rows": int, "max_bytes": int, "when_full": str}


def _bounds(given: Mapping[str, Any], where: str) -> Bounds:
    if unknown := sorted(given.keys() - _LANE_KEYS):
        raise SettingsInvalid(f"{where}{unknown[0]} is no setting; there are {', '.join(_LANE_KEYS)}")
    for name, kind in _LANE_KEYS.items():
        if type(given[name]) is not kind:
            raise SettingsInvalid(f"{where}{name} is {given[name]!r}, which is not {_KINDS[kind]}")
    if given["when_full"] not in ("reject", "drop-oldest"):
        raise SettingsInvalid(f"{where}when_full is {given['when_full']!r}; it may be reject or drop-oldest")
    return Bounds(given["max_rows"], given["max_bytes"], given["when_full"] == "drop-oldest")


_KINDS: Mapping[type, str] = {int: "a whole number", float: "a number", str: "a text"}


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str]) -> Settings:
    """The settings; raise SettingsInvalid, which says where, for one that is unknown or wrong."""
    given: dict[str, Any] = {}
    if file is not None or DEFAULT_FILE.exists():
        given |= _read_file(file or DEFAULT_FILE)
    for name in FIELDS:
        if (text := environment.get(f"{PREFIX}{name.upper()}")) is not None:
            given[name] = _from_text(f"{PREFIX}{name.upper()}", name, text)
    given |= {name: _from_text(f"--{name.replace('_', '-')}", name, text) for name, text in flags.items()}
    settings = Settings(**given)
    settings.bounds(), settings.lane_bounds(), settings.pace()
    return settings


def _kind(name: str) -> type:
    return type(FIELDS[name].default)


def _from_text(where: str, name: str, text: str) -> Any:
    try:
        return _kind(name)(text)
    except ValueError:
        raise SettingsInvalid(f"{where} is {text!r}, which is not {_KINDS[_kind(name)]}") from None


def _read_file(file: Path) -> dict[str, Any]:
    try:
        content = file.read_bytes()
        if len(content) > CONFIG_FILE_BYTES_MAX:
            raise SettingsInvalid(f"{file}: {len(content)} bytes; at most {CONFIG_FILE_BYTES_MAX} are read")
        found = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsInvalid(f"{file}: cannot be read: {error}") from None
    given: dict[str, Any] = {}
    for name, value in found.items():
        if name == "lanes":
            if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
                raise SettingsInvalid(f"{file}: lanes is not a table of tables, as in [lanes.telemetry]")
            given[name] = value
        elif name not in FIELDS:
            raise SettingsInvalid(f"{file}: {name} is no setting; there are {', '.join(FIELDS)} and lanes")
        elif _kind(name) is float and type(value) is int:
            given[name] = float(value)
        elif type(value) is not _kind(name):
            raise SettingsInvalid(f"{file}: {name} is {value!r}, which is not {_KINDS[_kind(name)]}")
        else:
            given[name] = value
    return given
