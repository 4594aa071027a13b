"""The examples of docs/development-examples.md: patches, and a copy of the tree that takes them."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.components import require
from support.documented import ROOT

PAGE = ROOT / "docs/development-examples.md"
PATCHES = "development/examples"
"""Folder of the patches, as the page links to it."""
PACKAGES = (
    "agent",
    "captain",
    "defender",
    "devtools",
    "insight",
    "kubenode",
    "machine",
    "remedy",
    "rules",
    "simulation",
)
RUN_SECONDS = 300
STALE = """The patch of example {name} no longer fits the tree. Refresh it as
docs/development-examples.md, section "Refresh an example", says. git apply:
{error}"""
FOREIGN = 99
"""Exit code of a run that imported a module from outside of the copy."""
RUN = f"""
import sys, pytest
root, *options = sys.argv[1:]
code = pytest.main(options)
ours = {{*{PACKAGES}, "support"}}
files = {{name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}}
files = {{name: file for name, file in files.items() if file and name.partition(".")[0] in ours}}
foreign = [file for file in files.values() if not file.startswith(root + "/")]
if foreign or not files:
    sys.exit(print("not from the copy:", foreign) or {FOREIGN})
sys.exit(code)
"""
"""Runs pytest on the copy and checks where the modules came from. Arguments: the copy, options."""


class PatchError(Exception):
    """A patch does not apply; the text says how to refresh it."""


@dataclass(frozen=True, slots=True)
class ExtensionExample:
    """An example: its patch, and the section of the page that walks through it.

    rows: files in the order of the walk, as the section's table names them.
    count: number of files that the section states.
    tests: test files of the section's command.
    """

    name: str
    rows: tuple[str, ...]
    count: int
    tests: tuple[str, ...]

    @property
    def patch(self) -> Path:
        return PAGE.parent / PATCHES / f"{self.name}.patch"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the patch changes or adds."""
        return tuple(re.findall(r"^\+\+\+ b/(\S+)$", self.patch.read_text(), re.MULTILINE))

    @property
    def own_tests(self) -> tuple[str, ...]:
        """The test files of the patch itself."""
        return tuple(
            file
            for file in self.files
            if re.match(r"tests/(unit|integration)/.*/test_\w+\.py", file)
        )

    def apply(self, folder: Path, *options: str) -> None:
        """Apply the patch to a tree. options: of git apply. Raises PatchError."""
        require("git")
        command = ("git", "apply", *options, str(self.patch))
        # In a subfolder of a repository git would skip the patch without an error.
        variables = environment(GIT_CEILING_DIRECTORIES=str(folder.resolve().parent))
        run = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
        if run.returncode:
            raise PatchError(STALE.format(name=self.name, error=run.stderr))


def read_examples() -> list[ExtensionExample]:
    """Parse the sections of the page that link to a patch."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return [_parse(section) for section in sections if f"]({PATCHES}/" in section]


def _parse(section: str) -> ExtensionExample:
    (name,) = re.findall(rf"\]\({PATCHES}/(\w+)\.patch\)", section)
    (count,) = re.findall(r"\*\*(\d+) files\*\*", section)
    (command,) = re.findall(r"^\.venv/bin/python -m pytest (.*)$", section, re.MULTILINE)
    rows = re.findall(r"^\| \d+ \| `([^`]+)` \|", section, re.MULTILINE)
    return ExtensionExample(name, tuple(rows), int(count), tuple(command.split()))


def run_tests(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest in a copy with this interpreter; return its exit code and the output."""
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments)
    command = (sys.executable, "-c", RUN, str(folder.resolve()), *options)
    run = subprocess.run(
        command,
        cwd=folder,
        env=environment(PYTHONPATH=str(folder)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    return run.returncode, run.stdout + run.stderr


def environment(**more: str) -> dict[str, str]:
    """Variables without those of git, pytest and KubeNode, which would lead out of the copy."""
    inherited = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    return {**inherited, "LC_ALL": "C.UTF-8", **more}
