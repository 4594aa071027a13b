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
        "LGPL-3.0-only",  # psycopg, as it is: docs/decisions/0002
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
"""SPDX identifiers of the names that libraries use. Other names are kept as they are."""
YEAR = timedelta(days=365)


def licence(metadata: PackageMetadata) -> str:
    """Return the SPDX expression of a library, or its own text if that is none; "" without a
    licence.
    """
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    declared = [metadata["License"]] if "License" in metadata else []
    classes = [line for line in metadata.get_all("Classifier", ()) if line.startswith("License")]
    declared += [line.rpartition(" :: ")[2] for line in classes]
    expressions = [SPDX.get(word, word) for word in declared if word]
    return next(
        (word for word in expressions if allowed(word)), expressions[0] if expressions else ""
    )


def allowed(expression: str) -> bool:
    """Return whether an alternative consists of ALLOWED licences only. AND binds closer than OR."""
    return any(
        all(word.strip(" ()") in ALLOWED for word in re.split(r" AND ", choice))
        for choice in expression.split(" OR ")
    )


def audited() -> Iterator[tuple[str, str, str]]:
    """Yield name, version and licence of every library in any image."""
    for name in sorted({name for text in lists().values() for name in text.split()}):
        package = distribution(name)
        yield name, package.version, licence(package.metadata)


def silent(today: date) -> list[str]:
    """Return dependencies of pyproject.toml without a new version in the year before `today`.

    Raises subprocess.CalledProcessError if uv fails.
    """
    requirements = [*PROJECT["dependencies"]]
    requirements += [each for some in PROJECT["optional-dependencies"].values() for each in some]
    now, then = _versions(requirements, today), _versions(requirements, today - YEAR)
    ours = {canonicalize_name(Requirement(line).name) for line in requirements}
    return sorted(name for name in ours if name in then and then[name] == now.get(name))


def _versions(requirements: list[str], at: date) -> dict[str, str]:
    names = "\n".join(re.split(r"[<>=~!;]", line)[0] for line in requirements)
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--universal"]
    command += ["--python-version=3.11", f"--exclude-newer={at.isoformat()}", "-"]
    done = subprocess.run(
        command, input=names, capture_output=True, text=True, check=True, cwd=ROOT
    )
    lines = (line.split(";")[0].strip().split("==") for line in done.stdout.splitlines())
    return {canonicalize_name(line[0].split("[")[0]): line[1] for line in lines if len(line) == 2}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m images.audit", description=__doc__)
    parser.add_argument("--alive", action="store_true", help="ask for releases, too")
    given = parser.parse_args(argv)
    refused = 0
    for name, version, expression in audited():
        refused += not allowed(expression)
        sys.stdout.write(
            f"{'' if allowed(expression) else 'REFUSED '}{name} {version}: {expression}\n"
        )
    if given.alive:
        for name in silent(SystemClock().now().date()):
            sys.stdout.write(f"no release for a year: {name}\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
