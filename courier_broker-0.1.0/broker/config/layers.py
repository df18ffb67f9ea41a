"""The layers of a configuration, laid over each other: file, then environment, then flags.

A layer sets whole keys. A list or a map in the environment takes the place of the one in the file; the
two are not merged, because nobody could tell from either of them what the result would be.
"""

import json
from collections.abc import Mapping
from pathlib import Path as FilePath

from msgspec import inspect

from broker.config.document import read_document
from broker.config.keys import (
    ENVIRONMENT_PREFIX,
    Path,
    environment_name,
    excerpt,
    flag_name,
    nearest,
    printable,
    settable_keys,
    unwrap,
)
from broker.config.problems import REFUSED, Findings, Source

CONFIG_VARIABLE = "COURIER_CONFIG"

# Variables that start like ours and are for the client, the build or the benchmarks.
RESERVED_VARIABLES = frozenset({CONFIG_VARIABLE, "COURIER_DEBUG_BUILD", "COURIER_TOKEN", "COURIER_URL"})
RESERVED_VARIABLE_PREFIX = "COURIER_WORKLOAD"


def read_layers(
    path: FilePath | None, environ: Mapping[str, str], flags: Mapping[str, object], findings: Findings
) -> dict[str, object]:
    """The values that the three layers give together; what gave each of them goes to `findings`."""
    file = path if path is not None else _file_from_environment(environ, findings)
    values = read_document(file, findings) if file is not None else {}
    _lay_environment(values, environ, findings)
    _lay_flags(values, flags, findings)
    return values


def _file_from_environment(environ: Mapping[str, str], findings: Findings) -> FilePath | None:
    name = environ.get(CONFIG_VARIABLE)
    if name == "":
        findings.problems.append(f'{CONFIG_VARIABLE}: expected the path of a file, found ""')
    return FilePath(name) if name else None


def _lay_environment(values: dict[str, object], environ: Mapping[str, str], findings: Findings) -> None:
    known = {environment_name(path): path for path in settable_keys()}
    for name in sorted(environ):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in RESERVED_VARIABLES:
            continue
        if name in known:
            _lay(values, known[name], environ[name], Source("environment", name), findings)
        elif not name.startswith(RESERVED_VARIABLE_PREFIX):
            # Without the prefix, which would make any two variables look alike.
            words = {each.removeprefix(ENVIRONMENT_PREFIX) for each in known}
            meant = nearest(name.removeprefix(ENVIRONMENT_PREFIX), sorted(words))
            hint = f"; did you mean {ENVIRONMENT_PREFIX}{meant}?" if meant else ""
            findings.problems.append(f"{printable(excerpt(name))}: unknown variable{hint}")


def _lay_flags(values: dict[str, object], flags: Mapping[str, object], findings: Findings) -> None:
    for key, value in flags.items():
        path = tuple(key.split("."))
        if value is None:
            continue
        if path not in settable_keys():
            meant = nearest(key, (".".join(map(str, known)) for known in settable_keys()))
            hint = f"; did you mean {meant}?" if meant else ""
            findings.refuse_at(printable(flag_name(path)), path, f"unknown key{hint}")
            continue
        _lay(values, path, value, Source("flag", flag_name(path)), findings)


def _lay(values: dict[str, object], path: Path, value: object, source: Source, findings: Findings) -> None:
    """Set one key. Below something that is no mapping nothing can be set; that thing is refused by itself."""
    parent: object = values
    for part in path[:-1]:
        parent = parent.setdefault(str(part), {}) if isinstance(parent, dict) else None
    if not isinstance(parent, dict):
        return
    findings.replace_source(path, source)
    parent[str(path[-1])] = _from_text(path, value, findings) if isinstance(value, str) else value


def _from_text(path: Path, text: str, findings: Findings) -> object:
    """A variable's text: as it stands where text is expected, else as JSON."""
    if isinstance(unwrap(settable_keys()[path]), inspect.StrType | inspect.LiteralType):
        return text
    try:
        return json.loads(text, object_pairs_hook=_without_repeated_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if not text.lstrip().startswith(("[", "{")):
            return text
        reason = (
            f"{error.msg} at character {error.pos + 1}"
            if isinstance(error, json.JSONDecodeError)
            else "it is nested too deep"
            if isinstance(error, RecursionError)
            else str(error)
        )
        findings.refuse(path, f"is not valid JSON: {reason}")
        return REFUSED


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key is repeated")
    return values


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
