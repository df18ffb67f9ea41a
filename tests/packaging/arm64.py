"""`make arm64`: the wheel for arm64, compiled here, installed and run in a clean Debian for arm64 under emulation.

    Debian 12 for arm64, made once     debootstrap, kept in the cache and never written to again
    the wheel                          a cross compiler with that Debian's headers of Python, on this machine
    its requirements                   downloaded once, as wheels only
    the installation                   pip inside, offline and wheels only, in a layer that is thrown away
    smoke.py, tests/fast               inside, without a compiler

Only what is in the last two lines is emulated. Compiling under emulation would take some ten times as long. tests/fast
runs in a process for each core, and not again for what it has passed with: the same wheel, tests and tools.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
PYTHON = (3, 11)
"""The Python of that Debian, as the wheel is for one version; Raspberry Pi OS 12 has the same."""

COMPILER = "aarch64-linux-gnu-gcc"
BINFMT = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
TOOLS = {"debootstrap": "debootstrap", "unshare": "util-linux", "dpkg-deb": "dpkg", COMPILER: "gcc-aarch64-linux-gnu"}
"""The programs that it takes, and the Debian package of each."""

TEST_TOOLS = (
    "hypothesis", "pytest", "pytest-asyncio", "pytest-benchmark", "pytest-timeout", "pytest-xdist", "websockets"
)  # fmt: skip
PLATFORMS = ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "manylinux_2_28_aarch64", "manylinux_2_34_aarch64")

INSIDE = """\
set -eu
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$LAYER/changes,workdir=$LAYER/work" "$LAYER/root"
cd "$LAYER/root"
mount -t proc proc proc
mkdir wheels work
mount --bind "$WHEELS" wheels
cp "$WHEEL" work/
cp -r "$TREE/tests" "$TREE/pyproject.toml" work/
exec chroot . /bin/sh -euc '
    cd /work
    for compiler in cc gcc clang tcc; do
        if command -v $compiler; then echo "a compiler is inside"; exit 1; fi
    done
    python3 -m venv --without-pip /opt/courier
    pip="/opt/courier/bin/python $(ls /wheels/pip-*.whl)/pip --quiet --no-cache-dir --disable-pip-version-check"
    $pip install --no-index --find-links /wheels --only-binary=:all: --no-compile ./*.whl
    echo "  pip install --only-binary=:all: $(ls ./*.whl) (no compiler inside)"
    /opt/courier/bin/python tests/packaging/smoke.py 2>smoke.log || { cat smoke.log; exit 1; }
    if [ "$PASSED" = yes ]; then
        echo "  tests/fast: passed before, with the same wheel, tests and tools; not run again"
        exit 0
    fi
    $pip install --no-index --find-links /wheels --only-binary=:all: --no-compile """ + " ".join(TEST_TOOLS) + """
    HYPOTHESIS_PROFILE=emulated /opt/courier/bin/python -P -m pytest tests/fast --override-ini pythonpath= --quiet \\
        --numprocesses auto --dist worksteal --timeout 900 --color=no >tests.log 2>&1 || { cat tests.log; exit 1; }
    echo "  tests/fast: $(tail -n 1 tests.log)"
'
"""  # fmt: skip


def missing(
    environment: Mapping[str, str] = os.environ,
    *,
    user: int | None = None,
    binfmt: Path = BINFMT,
    python: tuple[int, int] = sys.version_info[:2],
) -> list[str]:
    """What this machine lacks for it, and how to get it."""
    found = []
    if (os.geteuid() if user is None else user) != 0:
        found.append("root: a Debian is made and mounted; run it as root, or with sudo")
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=environment.get("PATH", "")) is None:
            found.append(f"{tool}: apt-get install {package}")
    if python != PYTHON:
        have, want = (".".join(map(str, each)) for each in (python, PYTHON))
        found.append(
            f"Python {want}, that of Debian {SUITE} (this is {have}): make clean; make arm64 PYTHON=python{want}"
        )
    if platform.machine() != "aarch64" and not _runs_arm64(binfmt):
        found.append(
            f"binfmt: the kernel cannot run programs for arm64, or not in another root ({binfmt}): "
            "apt-get install qemu-user-static, then, unless that has done it, "
            "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; "
            "cat /usr/lib/binfmt.d/qemu-aarch64.conf > /proc/sys/fs/binfmt_misc/register"
        )
    return found


def _runs_arm64(entry: Path) -> bool:
    """Whether the entry is there, enabled, and opened beforehand (F), so that it is found from inside a root."""
    try:
        lines = entry.read_text().splitlines()
    except OSError:
        return False
    flags = next((line.partition(" ")[2] for line in lines if line.startswith("flags:")), "")
    return "enabled" in lines and "F" in flags


def debian(cache: Path) -> Path:
    """The root of a clean Debian for arm64 with Python, made if it is not there."""
    root = cache / "root"
    if not root.exists():
        part = cache / "root.part"
        if part.exists():
            shutil.rmtree(part)
        command = ["debootstrap", "--arch=arm64", "--variant=minbase", "--include=python3,python3-venv", SUITE]
        with (cache / "debootstrap.log").open("wb") as log:
            done = subprocess.run([*command, str(part), MIRROR], stdout=log, stderr=log, check=False)
        if done.returncode:
            sys.exit(f"make arm64: debootstrap failed; see {log.name}")
        part.rename(root)
    return root


def headers(cache: Path, root: Path) -> Path:
    """The headers of that Debian's Python: those of another machine's would be of another size of things."""
    place = cache / "headers"
    if not place.exists():
        name = f"libpython{PYTHON[0]}.{PYTHON[1]}-dev"
        (index,) = (root / "var/lib/apt/lists").glob("*_main_binary-arm64_Packages")
        (stanza,) = (each for each in index.read_text().split("\n\n") if each.startswith(f"Package: {name}\n"))
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
        with urllib.request.urlopen(f"{MIRROR}/{fields['Filename']}", timeout=120) as answer:
            package = answer.read()
        if hashlib.sha256(package).hexdigest() != fields["SHA256"]:
            sys.exit(f"make arm64: {fields['Filename']} is not what {index.name} says; try again")
        archive = cache / f"{name}.deb"
        archive.write_bytes(package)
        subprocess.run(["dpkg-deb", "-x", str(archive), str(place)], check=True)
    return place


def wheel(cache: Path, root: Path) -> Path:
    """The wheel of this tree for arm64; only what changed is compiled again."""
    include = headers(cache, root) / "usr/include"
    version = f"python{PYTHON[0]}.{PYTHON[1]}"
    told = cache / "sysconfig"
    told.mkdir(exist_ok=True)
    name = "_sysconfigdata__aarch64-linux-gnu"
    shutil.copy(root / f"usr/lib/{version}/{name}.py", told)
    environment = os.environ | {
        "PYTHONPATH": str(told),
        "_PYTHON_SYSCONFIGDATA_NAME": name,
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "CC": COMPILER,
        "LDSHARED": f"{COMPILER} -shared",
        "CFLAGS": f"-I{include / version} -I{include}",
    }
    made = cache / "dist"
    shutil.rmtree(made, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(made), str(TREE)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"make arm64: the wheel cannot be built:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    (built,) = made.glob("*-linux_aarch64.whl")
    (TREE / "dist").mkdir(exist_ok=True)
    shutil.copy(built, TREE / "dist")
    return built


def wheelhouse(cache: Path) -> Path:
    """What the wheel and its tests require, as wheels for arm64; downloaded again when the requirements change."""
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    required = ["pip", *project["dependencies"], *TEST_TOOLS]
    place = cache / f"wheels-{hashlib.sha256(repr(required).encode()).hexdigest()[:12]}"
    if not place.exists():
        part = place.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(part)]
        target = ["--implementation", "cp", "--python-version", f"{PYTHON[0]}.{PYTHON[1]}"]
        target += [f"--platform={each}" for each in PLATFORMS]
        done = subprocess.run([*command, *target, *required], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"make arm64: a requirement has no wheel for arm64:\n{done.stderr[-4000:]}")
        part.rename(place)
    return place


def mark(cache: Path, built: Path, wheels: Path, tree: Path = TREE) -> Path:
    """The file that is there when tests/fast has passed with what is in this wheel, these tests and these tools."""
    digest = hashlib.sha256(f"{INSIDE}{wheels.name}".encode())
    with zipfile.ZipFile(built) as archive:
        parts = [(name, archive.read(name)) for name in archive.namelist() if ".dist-info/" not in name]
    places = ("tests", "tests/fast", "tests/support")
    tests = [tree / "pyproject.toml", *(path for place in places for path in (tree / place).glob("*.py"))]
    parts += [(str(path.relative_to(tree)), path.read_bytes()) for path in tests]
    for name, content in sorted(parts):
        digest.update(f"{name} {len(content)} ".encode() + content)
    return cache / f"passed-{digest.hexdigest()[:16]}"


@contextmanager
def step(text: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    print(f"{text} ...", flush=True)
    started = time.monotonic()
    yield
    print(f"  {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    """All of it, or what is missing for it."""
    if lacking := missing():
        sys.exit("\n".join(["make arm64 needs", *(f"  {each}" for each in lacking)]))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "courier-arm64"
    cache.mkdir(parents=True, exist_ok=True)
    with step(f"Debian {SUITE} for arm64, in {cache}"):
        root = debian(cache)
    with step("The wheel"):
        built = wheel(cache, root)
        print(f"  {built.name}, {built.stat().st_size / 1024:.0f} KiB")
    with step("Its requirements"):
        wheels = wheelhouse(cache)
    with step("Under emulation"), tempfile.TemporaryDirectory(dir=cache, prefix="layer-") as layer:
        for part in ("changes", "work", "root"):
            (Path(layer) / part).mkdir()
        # What is mounted is mounted in a namespace of its own: whatever becomes of this process, nothing stays mounted.
        # The processes inside have a namespace too, and end with it.
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        paths = {"ROOT": root, "LAYER": layer, "WHEELS": wheels, "WHEEL": built, "TREE": TREE}
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/root"}
        environment |= {name: str(path) for name, path in paths.items()}
        passed = mark(cache, built, wheels)
        environment["PASSED"] = "yes" if passed.exists() else "no"
        done = subprocess.run([*command, "/bin/sh", "-c", INSIDE], env=environment, check=False)
    if done.returncode:
        sys.exit(f"make arm64: failed with {done.returncode}")
    passed.touch()


if __name__ == "__main__":
    main()
