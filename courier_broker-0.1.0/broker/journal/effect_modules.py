"""Effects that an operator brings: files of Python that the configuration names (`effects`).

    from broker import effect

    @effect("pixel_control.lifecycle.*")
    def note_match(cursor, event): ...

`effect` only marks a function; whoever loads the file registers what is marked in it. So a file means the same wherever
it is imported, and loading one twice registers nothing twice.
"""

import inspect
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from broker.errors import ConfigError
from broker.journal.effects import Effect
from broker.limits import EFFECT_FILE_BYTES_MAX

_MARK = "_courier_effect_patterns"


class MarkedEffect(NamedTuple):
    """A function of a file, and the events that it is for."""

    pattern: str
    effect: Effect


def effect(pattern: str) -> Callable[[Effect], Effect]:
    """Mark the decorated function as an effect of plugin events whose name matches; `*` stands for anything."""
    if not isinstance(pattern, str) or not pattern:
        raise TypeError('effect needs the names of events: @effect("pixel_control.lifecycle.*")')

    def mark(function: Effect) -> Effect:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__name__} is async; an effect does SQL, and awaits nothing")
        try:
            inspect.signature(function).bind(None, None)
        except TypeError:
            raise TypeError(f"{function.__name__} does not take two arguments, the cursor and the event") from None
        vars(function).setdefault(_MARK, []).append(pattern)
        return function

    return mark


def load_effects(files: Sequence[str]) -> list[MarkedEffect]:
    """The effects of these files, in their order; raise ConfigError with every file that is broken, and where."""
    found: list[MarkedEffect] = []
    problems: list[str] = []
    for index, name in enumerate(files):
        try:
            marked = _marked(_run(Path(name), f"courier_effects_{index}"))
            if not marked:
                raise _BrokenFileError(f'{name}: has no effect; put @effect("…") before a function')
            found += marked
        except _BrokenFileError as problem:
            problems.append(f"effects[{index}]: {problem}")
    if problems:
        raise ConfigError(problems)
    return found


class _BrokenFileError(Exception):
    """What is wrong with a file, and in which line."""


def _run(path: Path, name: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        with path.open("rb") as file:
            source = file.read(EFFECT_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise _BrokenFileError(f"{path}: cannot be read: {reason}") from None
    if len(source) > EFFECT_FILE_BYTES_MAX:
        raise _BrokenFileError(f"{path}: is larger than {EFFECT_FILE_BYTES_MAX} bytes")
    try:
        exec(compile(source, str(path), "exec"), vars(module))  # noqa: S102 - the operator's own code
    except SyntaxError as error:
        raise _BrokenFileError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the file's own, whatever it is
        raise _BrokenFileError(f"{path}:{_line(error, path)}: {type(error).__name__}: {error}") from None
    return module


def _line(error: BaseException, path: Path) -> int | str:
    """The last line of the file itself that led to an error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return (lines[-1] if lines else None) or "?"


def _marked(module: ModuleType) -> list[MarkedEffect]:
    """What is marked, each once, however many names it has in the file."""
    seen: dict[int, Effect] = {}
    for value in vars(module).values():
        if inspect.isfunction(value) and _MARK in vars(value):
            seen.setdefault(id(value), value)
    return [MarkedEffect(pattern, function) for function in seen.values() for pattern in vars(function)[_MARK]]
