"""An environment with what an image's list names and nothing else, made without a network.

Files are those of the environment that runs the tests, by links: a folder of one distribution as a
whole, one that several share, such as google/, file by file, with what is asked for alone.
"""

import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution, packages_distributions
from pathlib import Path


class CleanVenv:
    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self.folder = folder
        self._run(sys.executable, "-m", "venv", "--without-pip", str(folder))
        (self.site,) = folder.glob("lib/python*/site-packages")
        owners = packages_distributions()
        for name in names:
            found = distribution(name)
            for file in found.files or ():
                if ".." not in file.parts:
                    alone = len(set(owners.get(file.parts[0], ()))) == 1
                    what = file.parts[0] if alone or ".dist-info" in file.parts[0] else str(file)
                    self._link(what, Path(str(found.locate_file(what))))

    def install(self, wheel: Path) -> None:
        """Without its needs: they are here, or something fails."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.folder / "bin/python")]
        self._run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", str(wheel))

    def _link(self, what: str, there: Path) -> None:
        here = self.site / what
        if not here.is_symlink():
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(there)

    def _run(self, *words: str) -> None:
        subprocess.run(words, check=True, capture_output=True, timeout=120)
