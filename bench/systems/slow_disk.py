"""A disk on which every sync takes 10 ms longer, as on an SD card: a small library that is preloaded into a server."""

import shutil
import subprocess
from pathlib import Path

from bench.failure import NotInstalled

SYNC_MS = 10
SOURCE = Path(__file__).with_name("slow_sync.c")


def slow_disk(directory: Path) -> dict[str, str]:
    """The environment of a server on such a disk; the library is compiled into this directory."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotInstalled("a slow disk needs a C compiler: apt-get install gcc libc6-dev")
    library = directory / "slow_sync.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "SLOW_SYNC_MS": str(SYNC_MS)}
