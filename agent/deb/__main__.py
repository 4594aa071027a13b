"""`python -m agent.deb OUT`: the package of this checkout into the folder OUT, reproducibly.

The same sources and lock give the same bytes: files are in order, owned by root, and as old as
SOURCE_DATE_EPOCH (default: the last commit).
"""

import argparse
import sys
from pathlib import Path

from agent.deb.build import CannotBuild, build
from agent.deb.pins import CannotPin


def main(argv: list[str]) -> int:
    """Build the package. Exit code 0 with the path on standard output; 1 if it cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m agent.deb", description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the .deb")
    parser.add_argument("--python", default="3.11", help="the hosts' python3 (default 3.11)")
    parser.add_argument("--version", default="", help="instead of the project's version")
    given = parser.parse_args(argv)
    try:
        made = build(given.out, python=given.python, version=given.version)
    except (CannotBuild, CannotPin) as error:
        sys.stderr.write(f"agent.deb: {error}\n")
        return 1
    sys.stdout.write(f"{made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
