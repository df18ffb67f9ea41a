"""Which extensions there are in a directory, and whether one of them has changed."""

from pathlib import Path

from broker.extensions.problems import LoadFailed
from broker.extensions.reading import FILE
from broker.limits import EXTENSION_FILES_MAX, EXTENSIONS_MAX

Fingerprint = tuple[tuple[str, int, int], ...]
"""Every file that an extension is made of, with the time of its last change and its size."""

WATCHED = (".py", ".yaml")


def directories(root: Path) -> list[Path]:
    """The directory of each extension, by name; raise LoadFailed if there is nothing of the kind."""
    try:
        found = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith((".", "_")))
    except OSError as error:
        raise LoadFailed([f"{root}: cannot be read: {error.strerror}"]) from None
    if (root / FILE).is_file():
        raise LoadFailed([f"{root}: is an extension itself; name the directory that it is in: {root.resolve().parent}"])
    if not found:
        raise LoadFailed([f"{root}: there is no extension in it; each is a directory with a {FILE}"])
    if len(found) > EXTENSIONS_MAX:
        raise LoadFailed([f"{root}: there are {len(found)} extensions in it; at most {EXTENSIONS_MAX} are hosted"])
    return found


def fingerprint(directory: Path) -> Fingerprint:
    """What an extension is made of now; raise LoadFailed for too much."""
    files: list[tuple[str, int, int]] = []
    for path in directory.rglob("*"):
        if path.suffix not in WATCHED:
            continue
        try:
            about = path.stat()
        except OSError:  # gone by now
            continue
        files.append((str(path.relative_to(directory)), about.st_mtime_ns, about.st_size))
        if len(files) > EXTENSION_FILES_MAX:
            raise LoadFailed([f"{directory}: has more than {EXTENSION_FILES_MAX} files; is it an extension?"])
    return tuple(sorted(files))
