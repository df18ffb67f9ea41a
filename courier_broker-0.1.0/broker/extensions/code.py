"""The modules of one extension, under names that no other one has, from their sources and nothing else.

Each extension is a package of its own, `courier_extension_N`, whose directory is the extension's. So two of them may
both have an `extension.py`, or a `helpers.py`, and a new version of one is beside the old one, not in its place. Byte
code is neither read nor written: Python compares times by the second, and would run the old code of a file that was
saved twice within one.
"""

import importlib
import itertools
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from broker.extensions.problems import LoadFailed, raised
from broker.extensions.reading import module_file

_numbers = itertools.count(1)


class _SourceLoader(SourceFileLoader):
    """Compiles a file each time."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the source as it is now."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Code(MetaPathFinder):
    """The modules of one version of an extension."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._package = f"courier_extension_{next(_numbers)}"

    def load(self, module: str, name: str | None) -> Any:
        """The module, or an object of a class in it; raise LoadFailed with file and line if that cannot be had."""
        package = ModuleType(self._package)
        package.__path__ = [str(self._directory)]
        sys.modules[self._package] = package
        sys.meta_path.insert(0, self)  # before the finder of Python, which would find the files too, and use byte code
        try:
            found = importlib.import_module(f"{self._package}.{module}")
            if name is None:
                return found
            if not hasattr(found, name):
                raise LoadFailed([f"{found.__file__}: there is no {name} in it, which entrypoint asks for"])
            return getattr(found, name)()
        except (Exception, SystemExit) as error:
            raise raised(error, self._directory, "import") from error

    def unload(self) -> None:
        """Forget the modules. What still runs of them goes on."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in [each for each in sys.modules if self._is_mine(each)]:
            del sys.modules[name]

    def owns(self, coroutine: Any) -> bool:
        """Whether a coroutine that runs is written in these modules."""
        frame = getattr(coroutine, "cr_frame", None)
        return frame is not None and self._is_mine(str(frame.f_globals.get("__name__", "")))

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - as Python asks
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Where a module of this extension is; None for all others."""
        if not self._is_mine(fullname) or fullname == self._package:
            return None
        file = module_file(self._directory, fullname.removeprefix(f"{self._package}."))
        if file is None:
            return None
        below = [str(file.parent)] if file.name == "__init__.py" else None
        return spec_from_file_location(
            fullname, file, loader=_SourceLoader(fullname, str(file)), submodule_search_locations=below
        )

    def _is_mine(self, name: str) -> bool:
        return name == self._package or name.startswith(f"{self._package}.")
