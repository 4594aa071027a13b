"""What the images' libraries may be used for: `python -m images.audit` lists each with its licence.

Exit code 1 if one has a licence that nobody has agreed to. With --alive it also names those of
pyproject.toml that had no release for a year; that asks the package index, through uv.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from importlib.metadata import PackageMetadata, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from devtools.generators import ROOT
from images.closure import PROJECT, lists
from kubenode.runtime.clock import SystemClock

ALLOWED = frozenset(
    {
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "EPL-2.0",  # asyncssh, as it is: docs/decisions/0002
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",  # certifi and pathspec, as they are
        "PSF-2.0",
    }
)
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""For the names that libraries give themselves; what is not here stands as it is."""
YEAR = timedelta(days=365)


def licence(told: PackageMetadata) -> str:
    """An SPDX expression, or what the library says where that is none; "" if it says nothing."""
    if "License-Expression" in told:
        return told["License-Expression"]
    words = [told["License"]] if "License" in told else []
    classes = [line for line in told.get_all("Classifier", ()) if line.startswith("License")]
    words += [line.rpartition(" :: ")[2] for line in classes]
    said = [SPDX.get(word, word) for word in words if word]
    return next((word for word in said if allowed(word)), said[0] if said else "")


def allowed(expression: str) -> bool:
    """Whether it leaves us a choice of ALLOWED alone; AND binds closer than OR, as in SPDX."""
    return any(
        all(word.strip(" ()") in ALLOWED for word in re.split(r" AND ", choice))
        for choice in expression.split(" OR ")
    )


def audited() -> Iterator[tuple[str, str, str]]:
    """Name, version and licence of all that any image holds."""
    for name in sorted({name for text in lists().values() for name in text.split()}):
        found = distribution(name)
        yield name, found.version, licence(found.metadata)


def silent(today: date) -> list[str]:
    """Which of pyproject.toml have no newer version than a year before `today`.

    Raises subprocess.CalledProcessError when uv cannot ask.
    """
    asked = [*PROJECT["dependencies"]]
    asked += [each for some in PROJECT["optional-dependencies"].values() for each in some]
    now, then = _versions(asked, today), _versions(asked, today - YEAR)
    ours = {canonicalize_name(Requirement(line).name) for line in asked}
    return sorted(name for name in ours if name in then and then[name] == now.get(name))


def _versions(asked: list[str], at: date) -> dict[str, str]:
    names = "\n".join(re.split(r"[<>=~!;]", line)[0] for line in asked)
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--universal"]
    command += ["--python-version=3.11", f"--exclude-newer={at.isoformat()}", "-"]
    done = subprocess.run(
        command, input=names, capture_output=True, text=True, check=True, cwd=ROOT
    )
    lines = (line.split(";")[0].strip().split("==") for line in done.stdout.splitlines())
    return {canonicalize_name(line[0].split("[")[0]): line[1] for line in lines if len(line) == 2}


def main(argv: list[str]) -> int:
    asked = argparse.ArgumentParser(prog="python -m images.audit", description=__doc__)
    asked.add_argument("--alive", action="store_true", help="ask for releases, too")
    given = asked.parse_args(argv)
    refused = 0
    for name, version, words in audited():
        refused += not allowed(words)
        sys.stdout.write(f"{'' if allowed(words) else 'REFUSED '}{name} {version}: {words}\n")
    if given.alive:
        for name in silent(SystemClock().now().date()):
            sys.stdout.write(f"no release for a year: {name}\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
