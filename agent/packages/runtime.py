"""The agent's own CPython and C libraries, from Debian packages, to run on any Linux.

    bin/python3.13          its program interpreter is the loader in lib, below /opt/kubenode
    lib/ld-linux-*.so.*     the loader of the C library beside it
    lib/*.so*               the C library and what the interpreter and the wheels link to
    lib/python3.13          the standard library

The loader still reads /etc/ld.so.cache of the host, so the host's NVML is found.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
DEBIAN = "trixie"
PYTHON = "3.13"
"""Minor version of CPython in that release."""
HOME = "/opt/kubenode/python"
"""Path of the runtime on a host: /opt/kubenode is a link to the current version."""
PACKAGES = ("python3", "libstdc++6", "libgcc-s1")
LOADED = ("libgcc_s.so.1",)
"""Libraries that the C library loads by name, so that no file lists them."""
UNUSED = (
    *("ensurepip", "idlelib", "pydoc_data", "sqlite3", "test", "tkinter", "turtledemo"),
    *("config-*", "__pycache__", "EXTERNALLY-MANAGED", "_sysconfigdata_*"),
    *("lib-dynload/_curses*", "lib-dynload/_dbm*", "lib-dynload/_sqlite3*"),
    *("lib-dynload/readline*", "lib-dynload/_test*", "lib-dynload/*_test.*"),
)
"""Parts of the standard library that the agent does not import, as patterns."""


class CannotBuild(Exception):
    """The package cannot be built. The text says what is missing, and how to get it."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Names of a processor architecture.

    rpm: as rpm and the kernel name it.
    triplet: folder of its libraries in Debian.
    wheels: platform tags of pip.
    """

    rpm: str
    triplet: str
    loader: str
    wheels: tuple[str, ...]


ARCHITECTURES: Mapping[str, Architecture] = {
    "amd64": Architecture(
        "x86_64",
        "x86_64-linux-gnu",
        "ld-linux-x86-64.so.2",
        ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    ),
    "arm64": Architecture(
        "aarch64",
        "aarch64-linux-gnu",
        "ld-linux-aarch64.so.1",
        ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    ),
}
"""By the name that dpkg gives it."""


def install_runtime(architecture: str, wheels: Path, folder: Path) -> None:
    """Make the runtime in `folder`. Raises CannotBuild.

    wheels: unpacked wheels, whose libraries must be there, too.
    """
    for program in ("mmdebstrap", "patchelf"):
        require_program(program, program)
    names = ARCHITECTURES[architecture]
    with tempfile.TemporaryDirectory(prefix="kubenode-runtime-") as work:
        system = Path(work) / "system"
        _unpack(architecture, system)
        interpreter = folder / "bin" / f"python{PYTHON}"
        interpreter.parent.mkdir(parents=True)
        shutil.copyfile(system / "usr/bin" / interpreter.name, interpreter)
        interpreter.chmod(0o755)
        _standard_library(system, folder)
        _libraries(system / "usr/lib" / names.triplet, folder, wheels, names.loader)
        _licences(system, folder)
    _patch(interpreter, names.loader)


def require_program(program: str, package: str) -> None:
    """Raise CannotBuild if the program is not on this machine."""
    if shutil.which(program) is None:
        raise CannotBuild(f"{program} is missing: apt-get install {package}")


def run(*argv: str | Path) -> str:
    """Run a program and return its output. Raises CannotBuild with the end of its errors."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotBuild(f"{argv[0]} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _unpack(architecture: str, system: Path) -> None:
    """Unpack the packages with all that they need; none of their scripts runs."""
    run(
        *("sh", str(CHECKOUT / "images/debian.sh"), DEBIAN, str(system), "--variant=extract"),
        *("--format=directory", f"--architectures={architecture}", "--skip=check/qemu"),
        f"--include={','.join(PACKAGES)}",
    )


def _standard_library(system: Path, folder: Path) -> None:
    library = folder / "lib" / f"python{PYTHON}"
    shutil.copytree(system / "usr/lib" / library.name, library, symlinks=True)
    for pattern in UNUSED:
        for path in sorted(library.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in library.rglob("*"):
        if path.is_symlink() and not path.exists():
            path.unlink()  # links to files of other packages


def _libraries(source: Path, folder: Path, wheels: Path, loader: str) -> None:
    """Copy what the interpreter, its extensions and the wheels link to, and what that links to."""
    shutil.copyfile(source / loader, folder / "lib" / loader)
    (folder / "lib" / loader).chmod(0o755)
    extensions = [*folder.rglob("*.so"), *wheels.rglob("*.so*")]
    pending = [*LOADED, *_needed([folder / "bin" / f"python{PYTHON}", *extensions])]
    while pending:
        name = pending.pop()
        library = folder / "lib" / name
        if (source / name).exists() and not library.exists():
            shutil.copyfile(source / name, library)
            pending += _needed([library])


def _needed(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        yield from run("patchelf", "--print-needed", file).split()


def _licences(system: Path, folder: Path) -> None:
    for text in sorted(system.glob("usr/share/doc/*/copyright")):
        if text.exists():
            target = folder / "licences" / text.parent.name
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(text, target)


def _patch(interpreter: Path, loader: str) -> None:
    """Make the interpreter and its extensions use the loader and the libraries beside it."""
    run("patchelf", "--set-interpreter", f"{HOME}/lib/{loader}", interpreter)
    run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", interpreter)


def command_of(runtime: Path, architecture: str) -> list[str]:
    """Return a command that runs the interpreter at a path other than its own on a host."""
    loader = runtime / "lib" / ARCHITECTURES[architecture].loader
    library_path = str(runtime / "lib")
    interpreter = str(runtime / "bin" / f"python{PYTHON}")
    return [str(loader), "--library-path", library_path, interpreter]


def is_native(architecture: str) -> bool:
    return os.uname().machine == ARCHITECTURES[architecture].rpm
