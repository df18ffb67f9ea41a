"""Loading: the layers, checked and turned into a `Config` that knows where each value came from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import msgspec

from broker.config.check import check_values
from broker.config.keys import Path, not_yet_active, path_text, settable_keys
from broker.config.layers import read_layers
from broker.config.problems import Findings
from broker.config.relations import check_relations, name_tokens
from broker.config.schema import Config
from broker.config.tokens_file import add_tokens
from broker.errors import ConfigError

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and for the path of every value in it where that value came from."""

    config: Config
    origin: dict[str, str]
    tokens_of_file: int = 0
    """How many of the tokens, the last ones, are those of `auth.tokensFile`."""

    def keys_set(self) -> dict[str, str]:
        """The origin of every value that is not a default."""
        return {key: origin for key, origin in self.origin.items() if origin != DEFAULT}

    def keys_not_yet_active(self) -> dict[str, str]:
        """The keys that somebody set and this version does not act on, each with where it was set first."""
        found: dict[str, str] = {}
        for key, origin in self.keys_set().items():
            inactive = not_yet_active(key)
            if inactive is not None:
                found.setdefault(inactive, origin)
        return found


def load(path: FilePath | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> LoadedConfig:
    """Load the configuration: a flag beats the environment, which beats the file, which beats the default.

    `flags` maps dotted keys (`server.port`) to values; None means that the flag was not given. Without
    `path`, the variable COURIER_CONFIG names the file; without either there is none. Raise ConfigError
    with every problem, one line each.
    """
    findings = Findings()
    values = read_layers(path, environ, flags, findings)
    tokens_of_file = add_tokens(values, findings)
    checked = check_values(values, findings)
    name_tokens(checked)
    check_relations(checked, findings)
    if findings.problems:
        raise ConfigError(findings.problems)
    config = msgspec.convert(checked, Config)
    return LoadedConfig(config, _origins(config, values, findings), tokens_of_file)


def from_values(values: Mapping[str, object]) -> Config:
    """The configuration that a mapping in the shape of the file gives. Raise ConfigError with every problem."""
    findings = Findings()
    checked = check_values(dict(values), findings)
    name_tokens(checked)
    check_relations(checked, findings)
    if findings.problems:
        raise ConfigError(findings.problems)
    return msgspec.convert(checked, Config)


def changed_keys(before: Config, after: Config) -> list[str]:
    """The settable keys whose values differ."""
    old, new = (msgspec.to_builtins(each) for each in (before, after))
    return [path_text(path) for path in settable_keys() if _at(old, path) != _at(new, path)]


def _at(values: Any, path: Path) -> Any:
    for part in path:
        values = values[part]
    return values


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every value that holds no other, with its path; an empty list or mapping is one."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list | tuple) and value:
        for index, each in enumerate(value):
            yield from leaves(each, (*path, index))
    else:
        yield path, value


def _origins(config: Config, values: dict[str, object], findings: Findings) -> dict[str, str]:
    return {
        path_text(path): str(findings.source_of(path)) if _is_given(values, path) else DEFAULT
        for path, _ in leaves(msgspec.to_builtins(config))
    }


def _is_given(values: Any, path: Path) -> bool:
    for part in path:
        if isinstance(values, dict) and part not in values:
            return False
        values = values[part]
    return True
