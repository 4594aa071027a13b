"""The repository as somebody has it who has just cloned it, with the packages that are here.

Only what git would take is copied, as it stands in the working tree: what is ignored is missing
there. Its .venv has the locked packages of ours, and the programs of the clone.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """#!{python}
import sys
from kubenode.cli import main
sys.exit(main())
"""


class FreshClone:
    """folder  where it is; `home` beside it is its user's, with nothing there"""

    def __init__(self, parent: Path) -> None:
        self.folder, self.home = parent / "kubenode", parent / "home"
        self.home.mkdir()
        copy_worktree(self.folder)
        self._venv()

    @property
    def kubenode(self) -> Path:
        return self.folder / ".venv/bin/kubenode"

    def environment(self, **more: str) -> dict[str, str]:
        """Of a shell in which the tutorial's PATH is set; it names no cluster."""
        bin_ = f"{self.folder / '.venv/bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        return {"PATH": bin_, "HOME": str(self.home), "NO_COLOR": "1", "LC_ALL": "C.UTF-8", **more}

    def run(
        self, *words: str | Path, limit: float, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """In its folder, to the end. Raises subprocess.TimeoutExpired after `limit` seconds."""
        return subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env=self.environment(**(variables or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    def _venv(self) -> None:
        """As `make venv` leaves it, but for the download: the packages are those of this run."""
        folder = self.folder / ".venv"
        create = (sys.executable, "-m", "venv", "--without-pip", folder)
        subprocess.run(create, check=True, timeout=60)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        paths = f"{self.folder}\n{sysconfig.get_path('purelib')}\n"
        (folder / "lib" / version / "site-packages" / "clone.pth").write_text(paths)
        self.kubenode.write_text(SCRIPT.format(python=folder / "bin/python"))
        self.kubenode.chmod(0o755)
        (folder / ".ready-run").touch()
        (folder / ".ready").touch()


def copy_worktree(folder: Path) -> None:
    """Copy what git would take of the working tree; an index is left beside `folder`."""
    # Listed through a repository of our own: the checkout may be another user's, or an export.
    index = folder.with_name("index")
    subprocess.run(("git", "init", "--quiet", "--bare", index), check=True, timeout=60)
    git = ("git", f"--git-dir={index}", f"--work-tree={ROOT}", "ls-files", "-z")
    known = (*git, "--others", "--exclude-standard")
    listed = subprocess.run(known, cwd=ROOT, capture_output=True, check=True, timeout=60)
    for name in filter(None, listed.stdout.decode().split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
