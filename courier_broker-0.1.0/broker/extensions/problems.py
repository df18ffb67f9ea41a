"""What keeps an extension from running, with its file and line."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any


class LoadFailed(Exception):
    """An extension cannot run. `problems` has a line for each reason, with the file it is in, and the line if known."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def raised(error: BaseException, directory: Path, doing: str) -> LoadFailed:
    """The failure for an exception: at the innermost place that is in the extension."""
    if isinstance(error, LoadFailed):
        return error
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename and _is_in(error.filename, directory):
        return LoadFailed([f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"])
    chain = (error, error.__cause__) if error.__cause__ is not None else (error,)
    places = [
        f"{frame.filename}:{frame.lineno}"
        for each in chain
        for frame in traceback.extract_tb(each.__traceback__)
        if _is_in(frame.filename, directory)
    ]
    return LoadFailed([f"{places[-1] if places else directory}: {doing}: {reason}{_sibling_hint(error, directory)}"])


def waiting(coroutine: Any, directory: Path, text: str) -> LoadFailed:
    """The failure for a coroutine that does not end: at the innermost place in the extension where it waits."""
    places = [
        f"{frame.f_code.co_filename}:{frame.f_lineno}"
        for frame in _frames(coroutine)
        if _is_in(frame.f_code.co_filename, directory)
    ]
    return LoadFailed([f"{places[-1] if places else directory}: {text}"])


def _frames(coroutine: Any) -> Iterator[FrameType]:
    while isinstance(coroutine, CoroutineType):
        if coroutine.cr_frame is not None:
            yield coroutine.cr_frame
        coroutine = coroutine.cr_await


def _is_in(filename: str, directory: Path) -> bool:
    return Path(filename).is_relative_to(directory)


def _sibling_hint(error: BaseException, directory: Path) -> str:
    """An absolute import finds no file beside: two extensions could not have modules of the same name then."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        name = error.name.partition(".")[0]
        if (directory / f"{name}.py").exists() or (directory / name).is_dir():
            return f"; it lies beside: write `from . import {name}` or `from .{name} import …`"
    return ""
