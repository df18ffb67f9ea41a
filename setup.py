"""Builds the compiled modules of `_fast`; everything else is declared in pyproject.toml."""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("COURIER_DEBUG_BUILD") == "1"

# The one directive table. A debug build keeps every check, so that the same test suite proves that
# the release build does not rely on one being there.
DIRECTIVES = {
    "language_level": 3,
    "embedsignature": False,
    "freethreading_compatible": False,
    "boundscheck": DEBUG,
    "wraparound": DEBUG,
    "initializedcheck": DEBUG,
    "cdivision": not DEBUG,
}
MACROS = [("COURIER_DEBUG_BUILD", "1")] if DEBUG else [("CYTHON_WITHOUT_ASSERTIONS", "1")]
COMPILE = ["-O1", "-g", "-UNDEBUG"] if DEBUG else ["-O3", "-g0", "-fno-plt"]
LINK = [] if DEBUG else ["-Wl,-s"]
MODULES = ("build_flavour", "commit", "counters", "credits", "dedupe", "histogram", "leases", "nesting", "ring")


def extensions() -> list[Extension]:
    return [
        Extension(
            f"_fast.{name}",
            [f"_fast/{name}.pyx"],
            include_dirs=["_fast"],
            depends=["_fast/sqlite_api.h"],
            define_macros=MACROS,
            extra_compile_args=[
                *COMPILE,
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                "-Wno-unused-variable",
            ],
            extra_link_args=LINK,
        )
        for name in MODULES
    ]


setup(
    ext_modules=cythonize(
        extensions(),
        compiler_directives=DIRECTIVES,
        build_dir="build/cython-debug" if DEBUG else "build/cython",
    )
)
