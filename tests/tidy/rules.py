"""The rules of the tree, each as a function that returns what breaks it.

A rule is a function so that a test can show that it bites: it is run on the real tree, where it must find
nothing, and on a small broken one, where it must find something.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

LINES_MAX = 400
PACKAGES = ("broker", "_fast", "edge", "bench", "tests")
TOP_LEVEL = ("pyproject.toml", "setup.py", "broker", "_fast", "edge", "bench", "tests", "docs", "README.md", "Makefile",
             "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", ".ci/run")  # fmt: skip


def _sources(root: Path, *suffixes: str) -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in suffixes and "__pycache__" not in path.parts and "_pb2" not in path.name:
                yield path


def _name(root: Path, path: Path) -> str:
    return str(path.relative_to(root))


def the_top_level_is_complete(root: Path) -> list[str]:
    return [f"{name} is missing" for name in TOP_LEVEL if not (root / name).exists()]


def no_file_is_too_long(root: Path) -> list[str]:
    counts = {path: len(path.read_text().splitlines()) for path in _sources(root, ".py", ".pyx")}
    return [f"{_name(root, path)}: {lines} lines" for path, lines in counts.items() if lines > LINES_MAX]


def every_module_says_what_it_is_for(root: Path) -> list[str]:
    return [
        f"{_name(root, path)}: no docstring"
        for path in _sources(root, ".py", ".pyx")
        if path.parts[len(root.parts)] in ("broker", "_fast", "edge")
        and not path.read_text().lstrip().startswith('"""')
    ]


def every_room_lists_its_files(root: Path) -> list[str]:
    found = []
    for init in sorted((root / "broker").glob("*/__init__.py")):
        text = init.read_text()
        found += [
            f"{_name(root, init)}: does not mention {path.stem}"
            for path in sorted(init.parent.glob("*.py"))
            if path != init and not re.search(rf"\b{path.stem}\b", text)
        ]
    return found


def every_compiled_module_has_its_contract(root: Path) -> list[str]:
    return [
        f"{_name(root, path)}: no {path.stem}{suffix}"
        for path in sorted((root / "_fast").glob("*.pyx"))
        for suffix in (".pyi", ".pxd")
        if not path.with_suffix(suffix).exists() and not (suffix == ".pxd" and "cdef class" not in path.read_text())
    ]


def compiled_modules_import_nothing_above_them(root: Path) -> list[str]:
    allowed = ("libc", "cpython", "cython", "_fast", "types", "os")
    found = []
    for path in sorted([*(root / "_fast").glob("*.pyx"), *(root / "_fast").glob("*.pxd")]):
        for line in path.read_text().splitlines():
            match = re.match(r"\s*(?:from\s+(\S+)\s+c?import|c?import\s+(\S+))", line)
            if match and (match[1] or match[2]).split(".")[0] not in allowed:
                found.append(f"{_name(root, path)}: {line.strip()}")
    return found


def compiled_modules_are_imported_through_their_package(root: Path) -> list[str]:
    return [
        f"{_name(root, path)}: {line.strip()}"
        for path in _sources(root, ".py")
        if path.parts[len(root.parts)] in ("broker", "edge")
        for line in path.read_text().splitlines()
        if re.match(r"\s*(from|import)\s+_fast\.", line)
    ]


def _sleeps(tree: ast.AST) -> Iterator[ast.Call]:
    """Sleeps of a fixed length, but for those in a function named `until`, which waits for a condition."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "until":
            continue
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "sleep"
            and any(isinstance(length, ast.Constant) and length.value for length in node.args)
        ):
            yield node
        yield from _sleeps(node)


def tests_do_not_sleep(root: Path) -> list[str]:
    return [
        f"{_name(root, path)}:{node.lineno}: sleep"
        for path in sorted((root / "tests").rglob("*.py"))
        for node in _sleeps(ast.parse(path.read_text()))
    ]


def names_of_tests_are_sentences(root: Path) -> list[str]:
    return [
        f"{_name(root, path)}: {node.name}"
        for path in sorted([*(root / "tests").rglob("test_*.py"), *(root / "bench").rglob("test_*.py")])
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") < 3
    ]


def no_loose_ends(root: Path) -> list[str]:
    words = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
    return [
        f"{_name(root, path)}:{number}: {line.strip()}"
        for path in _sources(root, ".py", ".pyx", ".pxd", ".pyi")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if words.search(line)
    ]


RULES = (
    the_top_level_is_complete,
    no_file_is_too_long,
    every_module_says_what_it_is_for,
    every_room_lists_its_files,
    every_compiled_module_has_its_contract,
    compiled_modules_import_nothing_above_them,
    compiled_modules_are_imported_through_their_package,
    tests_do_not_sleep,
    names_of_tests_are_sentences,
    no_loose_ends,
)
