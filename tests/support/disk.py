"""A disk that is slow, or that does not answer: a library to preload, whose sync waits before it syncs."""

import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int fdatasync(int fd) {
    const char *slow = getenv("SYNC_US"), *hang = getenv("SYNC_HANGS");
    if (slow) usleep(atoi(slow));
    while (hang && access(hang, F_OK) == 0) usleep(1000);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


def preload(directory: Path, *, sync_us: int = 0, hangs: Path | None = None) -> dict[str, str]:
    """The environment of a process whose syncs take so much longer, and do not end while the file `hangs` is there."""
    source, library = directory / "disk.c", directory / "disk.so"
    source.write_text(_SOURCE)
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    asked = {"SYNC_US": str(sync_us)} if sync_us else {}
    return {"LD_PRELOAD": str(library), **asked, **({} if hangs is None else {"SYNC_HANGS": str(hangs)})}
