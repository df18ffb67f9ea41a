"""Flags, the settings that they make, and the exit codes, which are those of `courier`."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from edge.config import DEFAULT_FILE, FIELDS, Settings, load

FAILED: Final = 1
REFUSED: Final = 65
UNAVAILABLE: Final = 69
STORAGE: Final = 74
TEMPORARY: Final = 75
CONFIG: Final = 78

OF_THE_OUTBOX: Final = ("path", "socket")
"""What a command needs that only looks."""


def add_settings(parser: argparse.ArgumentParser, names: Iterable[str] = tuple(FIELDS)) -> None:
    """Add `--config`, and a flag for each of these settings."""
    group = parser.add_argument_group("settings", f"Flags win over COURIER_EDGE_* and those over {DEFAULT_FILE}.")
    group.add_argument("--config", type=Path, metavar="FILE", help="The file of the settings, in TOML.")
    for name in names:
        each = FIELDS[name]
        default = "" if each.default == "" else f" [default: {each.default}]"
        meaning = each.metadata["meaning"].replace("`", "").replace("%", "%%")
        group.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=meaning + default)


def settings_of(given: argparse.Namespace) -> Settings:
    """The settings of a command; raise SettingsInvalid."""
    flags = {name: getattr(given, name) for name in FIELDS if getattr(given, name, None) is not None}
    return load(given.config, os.environ, flags)
