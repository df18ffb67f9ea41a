"""Builds the compiled modules of `_fast`, and the stubs of gRPC; everything else is declared in pyproject.toml."""

import logging
import os
import platform
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build import build
from setuptools.command.sdist import sdist
from setuptools.errors import ExecError

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
# A 32-bit Pi has no wheels of what the broker requires, and no compiler: what is installed there is the edge.
OPTIONAL = platform.machine() == "armv7l"
MODULES = (
    "answers",
    "build_flavour",
    "cells",
    "commit",
    "counters",
    "credits",
    "dedupe",
    "entries",
    "frames",
    "handed",
    "heads",
    "histogram",
    "intake",
    "leases",
    "nesting",
    "requests",
    "ring",
    "texts",
)


def extensions() -> list[Extension]:
    return [
        Extension(
            f"_fast.{name}",
            [f"_fast/{name}.pyx"],
            include_dirs=["_fast"],
            depends=["_fast/sha256.h", "_fast/sqlite_api.h"],
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


PROTO = Path("broker/front/skyra_v1/skyra.proto")
STUBS = tuple(PROTO.with_name(f"skyra_pb2{ending}") for ending in (".py", ".pyi", "_grpc.py"))
"""The messages, their types, and the client."""


class BuildStubs(Command):
    """Makes the stubs beside the .proto, if grpcio-tools is there. Without them the broker runs, but for gRPC."""

    description = "make the stubs of gRPC from their .proto"
    user_options: list[tuple[str, str, str]] = []  # noqa: RUF012 - as setuptools declares it
    editable_mode = False
    build_lib: str | None = None

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        try:
            from grpc_tools import protoc  # noqa: PLC0415 - a machine may be without it
        except ImportError:
            logging.getLogger(__name__).info("grpcio-tools is not installed: this build is without gRPC")
            return
        outputs = [f"--{kind}_out=." for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", "--proto_path=.", *outputs, str(PROTO)]):
            raise ExecError(f"{PROTO} cannot be compiled")

    def get_source_files(self) -> list[str]:
        return [str(PROTO)]

    def get_outputs(self) -> list[str]:
        return [str(Path(self.build_lib or ".") / path) for path in STUBS]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class Build(build):
    """What every build consists of; the stubs come first, so that they are copied with the other modules."""

    sub_commands = [("build_stubs", None), *build.sub_commands]  # noqa: RUF012 - as setuptools declares it


class Sources(sdist):
    """The sources: what the checkout has built from them stays out."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, [name for name in files if Path(name) not in STUBS])


modules = cythonize(
    extensions(),
    compiler_directives=DIRECTIVES,
    build_dir="build/cython-debug" if DEBUG else "build/cython",
)
for module in modules:
    module.optional = OPTIONAL  # Cython makes new extensions, and does not hand it on

setup(cmdclass={"build": Build, "build_stubs": BuildStubs, "sdist": Sources}, ext_modules=modules)
