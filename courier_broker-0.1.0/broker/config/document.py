"""A YAML file as plain JSON values, with the line of each one.

The values are those of YAML 1.2's JSON schema: `yes`, `0o17`, `1_000`, `1:30` and `2025-10-18` are text,
not something that depends on who reads them. PyYAML's own constructor is not used: it takes repeated
keys silently, knows no lines, and would expand a few aliases into more values than there is memory for.
"""

import re
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import TypeVar

import yaml

from broker.config.keys import Path, printable
from broker.config.problems import REFUSED, Findings, Source, found
from broker.limits import CONFIG_FILE_BYTES_MAX, CONFIG_VALUES_MAX, JSON_DEPTH_MAX

T = TypeVar("T")

_TAG = "tag:yaml.org,2002:"
_RESOLVERS = {
    "null": (re.compile(r"(?:null|~|)\Z"), ["n", "~", ""]),
    "bool": (re.compile(r"(?:true|false)\Z"), ["t", "f"]),
    "int": (re.compile(r"-?(?:0|[1-9][0-9]*)\Z"), [*"-0123456789"]),
    "float": (
        re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z|[-+]?\.(?:inf|nan)\Z"),
        [*"-+.0123456789"],
    ),
}
# An alias or anchor may be a token that somebody forgot to quote, so its name is left out of messages.
_ALIAS_NAME = re.compile(r"\b(alias|anchor) '.*?'")
_HAS_TAG = "has a tag; only plain values, lists and mappings are known"


class _Loader(yaml.SafeLoader):
    """A safe loader that resolves plain text to JSON values only."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own name and kind of attribute


for _name, (_expression, _first) in _RESOLVERS.items():
    _Loader.add_implicit_resolver(_TAG + _name, _expression, _first)


class _TooMuchError(Exception):
    """The document is deeper or larger than a configuration can be."""


def read_document(path: FilePath, findings: Findings) -> dict[str, object]:
    """The values of a file. What is wrong with it goes to `findings`, and what could be read is still returned."""

    def build(builder: "_Builder", node: yaml.Node) -> dict[str, object] | None:
        return builder.mapping(node, ()) if isinstance(node, yaml.MappingNode) else None

    return _read(path, findings, build, "a mapping") or {}


def read_list(path: FilePath, findings: Findings, place: Path, first: int) -> list[object]:
    """The entries of a file that is a list, which will stand at `place` from index `first` on; otherwise likewise."""

    def build(builder: "_Builder", node: yaml.Node) -> list[object] | None:
        return builder.items(node, place, first) if isinstance(node, yaml.SequenceNode) else None

    return _read(path, findings, build, "a list") or []


def _read(
    path: FilePath, findings: Findings, build: Callable[["_Builder", yaml.Node], T | None], expected: str
) -> T | None:
    label = printable(str(path))
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        findings.problems.append(f"{label}: cannot be read: {reason}")
        return None
    if len(content) > CONFIG_FILE_BYTES_MAX:
        findings.problems.append(f"{label}: is larger than {CONFIG_FILE_BYTES_MAX} bytes")
        return None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        findings.problems.append(f"{label}:{line}: is not UTF-8")
        return None
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is None or node.tag == f"{_TAG}null":
            return None
        values = build(_Builder(label, findings), node)
        if values is not None:
            return values
        problem = f":{_line(node)}: expected {expected} at the top, found {_kind(node)}"
    except yaml.MarkedYAMLError as error:
        place = f":{error.problem_mark.line + 1}:{error.problem_mark.column + 1}" if error.problem_mark else ""
        reason = _ALIAS_NAME.sub(r"\1", ", ".join(filter(None, (error.context, error.problem))))
        problem = f"{place}: is not valid YAML: {reason}"
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f":{line}: is not valid YAML: has an unprintable character"
    except RecursionError:
        problem = f": is nested more than {JSON_DEPTH_MAX} deep"
    except _TooMuchError as error:
        problem = f": {error}"
    findings.problems.append(label + problem)
    return None


def _kind(node: yaml.Node) -> str:
    names = {yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list"}
    return next((name for kind, name in names.items() if isinstance(node, kind)), "a single value")


class _Builder:
    """Turns nodes into values, and notes the line of each."""

    def __init__(self, label: str, findings: Findings) -> None:
        self._label = label
        self._findings = findings
        self._size = 0

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        """The values of a mapping. A repeated key is refused, and its first value stands."""
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            below = (*path, key)
            if key in values:
                self._refuse(key_node, below, f"repeated key; first given at {self._findings.sources[below].label}")
                continue
            self._place(key_node, below)
            values[key] = self._value(value_node, below)
        return values

    def items(self, node: yaml.SequenceNode, path: Path, first: int = 0) -> list[object]:
        """The values of a list, whose first entry has this index."""
        return [self._item(item, (*path, index)) for index, item in enumerate(node.value, first)]

    def _value(self, node: yaml.Node, path: Path) -> object:
        # An alias counts each time it is used, and long text by its length: the size is that of the result.
        self._size += 1 + (len(node.value) // 64 if isinstance(node, yaml.ScalarNode) else 0)
        if self._size > CONFIG_VALUES_MAX:
            raise _TooMuchError(f"expands to more than {CONFIG_VALUES_MAX} values")
        if len(path) > JSON_DEPTH_MAX:
            raise _TooMuchError(f"is nested more than {JSON_DEPTH_MAX} deep")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return self.items(node, path)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._refuse(node, path, _HAS_TAG)

    def _item(self, node: yaml.Node, path: Path) -> object:
        self._place(node, path)
        return self._value(node, path)

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(node, path, "expected text as a key, found a list or a mapping")
            return None
        key = self._scalar(node, path)
        if isinstance(key, str):
            return key
        if key is not REFUSED:
            self._refuse(node, path, f"expected text as a key, found {found(key)}; put it in quotes")
        return None

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        kind = node.tag.removeprefix(_TAG)
        text = str(node.value)
        if kind == "str":
            return self._text(node, text, path)
        if kind not in _RESOLVERS or not _RESOLVERS[kind][0].match(text):
            return self._refuse(node, path, _HAS_TAG)
        if kind == "null":
            return None
        if kind == "bool":
            return text == "true"
        if kind == "float":
            return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        try:
            return int(text)
        except ValueError:  # more digits than Python is willing to convert
            return self._refuse(node, path, f"is an integer of {len(text)} digits")

    def _text(self, node: yaml.Node, text: str, path: Path) -> object:
        """Join the surrogate pairs that JSON writes for characters past U+FFFF, and PyYAML leaves apart."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            return self._refuse(node, path, "has a lone surrogate, which is no character")

    def _place(self, node: yaml.Node, path: Path) -> None:
        self._findings.sources[path] = Source("file", f"{self._label}:{_line(node)}")

    def _refuse(self, node: yaml.Node, path: Path, text: str) -> object:
        self._findings.refuse_at(f"{self._label}:{_line(node)}", path, text)
        return REFUSED


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
