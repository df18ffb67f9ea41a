"""Names and patterns of streams as arguments: what cannot be one is refused before anything is asked of a broker."""

import re
from typing import TYPE_CHECKING, Any, NoReturn

import click

from broker.contracts.names import stream_name_problem, stream_pattern_problem

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._/*-]+")


if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
else:  # click 8.2 has no parameters there
    _ParamType = click.ParamType


class StreamName(_ParamType):
    """A stream, or where `patterns` says so a pattern of streams."""

    name = "stream"

    def __init__(self, *, patterns: bool = False) -> None:
        self._problem = stream_pattern_problem if patterns else stream_name_problem
        self._patterns = patterns

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it stands; fail with the reason, and with a name near it, if it is none."""
        text = str(value)
        problem = self._problem(text)
        if problem is not None:
            self._refuse(text, problem, param, ctx)
        return text

    def _refuse(self, text: str, problem: str, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
        if not self._patterns and "*" in text and stream_pattern_problem(text) is None:
            self.fail(f"{text!r} is a pattern; an event goes to one stream, which is named in full", param, ctx)
        near = _NOT_IN_A_NAME.sub("-", "/".join(part for part in text.split("/") if part)).strip("-")
        hint = f"; did you mean {near!r}?" if near and near != text and self._problem(near) is None else ""
        kind = "a stream or a pattern" if self._patterns else "a stream"
        self.fail(f"{text!r} cannot name {kind}: {problem}{hint}", param, ctx)


STREAM = StreamName()
PATTERN = StreamName(patterns=True)
