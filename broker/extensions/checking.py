"""The same checks as those of a host, without running anything of an extension."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker.extensions.catalogue import directories, fingerprint
from broker.extensions.manifest import Manifest
from broker.extensions.problems import LoadFailed
from broker.extensions.reading import FILE, entrypoint_of, module_file, read_manifest


@dataclass(slots=True)
class Checked:
    """What was found about one extension."""

    directory: Path
    manifest: Manifest | None = None
    """None, if it cannot be read."""
    problems: list[str] = field(default_factory=list)


def check(root: Path, environ: Mapping[str, str]) -> list[Checked]:
    """Every extension of a directory, by name; raise LoadFailed for a directory without any."""
    checked = [_check_one(each, environ) for each in directories(root)]
    homes: dict[str, Path] = {}
    for each in checked:
        if each.manifest is not None and each.manifest.id is not None:
            first = homes.setdefault(each.manifest.id, each.directory)
            if first != each.directory:
                reason = f"expected an id of its own, found {each.manifest.id}, that of {first}"
                each.problems.append(f"{each.directory / FILE}: id: {reason}")
    return checked


def _check_one(directory: Path, environ: Mapping[str, str]) -> Checked:
    found = Checked(directory)
    try:
        fingerprint(directory)
        found.manifest = read_manifest(directory, environ)
    except LoadFailed as failure:
        found.problems += failure.problems
    trees: dict[Path, ast.Module] = {}
    for path in sorted(directory.rglob("*.py")):
        try:
            trees[path] = ast.parse(path.read_bytes(), filename=str(path))
        except SyntaxError as error:
            found.problems.append(f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}")
        except (RecursionError, MemoryError):  # what the parser says of a text that is nested too deep for it
            found.problems.append(f"{path}: cannot be read: is nested too deep for Python")
        except (OSError, ValueError) as error:
            found.problems.append(f"{path}: cannot be read: {error}")
    entrypoint = None if found.manifest is None else entrypoint_of(found.manifest, directory)
    if entrypoint is not None and (module := module_file(directory, entrypoint[0])) in trees:
        name = entrypoint[1]
        if name is not None and name not in set(_names(trees[module])):
            found.problems.append(f"{module}: there is no {name} in it, which entrypoint asks for")
    return found


def _names(tree: ast.Module) -> Iterator[str]:
    """What a module defines, wherever in it: one that is made in an unusual way is left to the run."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from ((alias.asname or alias.name) for alias in node.names)
