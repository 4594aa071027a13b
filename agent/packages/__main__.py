"""`python -m agent.packages OUT`: builds the packages of this checkout into the folder OUT.

The same sources, lock and Debian packages give the same bytes: files are in order, owned by root,
and as old as SOURCE_DATE_EPOCH (default: the last commit).
"""

import argparse
import sys
from hashlib import sha256
from pathlib import Path

from agent.packages.build import build
from agent.packages.formats import FORMATS, NAME
from agent.packages.pins import CannotPin
from agent.packages.runtime import ARCHITECTURES, CannotBuild


def write_sums(folder: Path) -> None:
    """List the checksums of all packages in the folder, as `sha256sum` does."""
    packages = [path for path in sorted(folder.glob(f"{NAME}*")) if path.is_file()]
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in packages]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main(argv: list[str]) -> int:
    """Build the packages and print their paths. Exit code 1 if one cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m agent.packages", description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the packages")
    parser.add_argument("--arch", choices=ARCHITECTURES, default="amd64")
    parser.add_argument("--format", choices=FORMATS, action="append", help="default: all")
    parser.add_argument("--version", default="", help="instead of the project's version")
    options = parser.parse_args(argv)
    try:
        packages = build(
            options.out,
            architecture=options.arch,
            formats=options.format or FORMATS,
            version=options.version,
        )
    except (CannotBuild, CannotPin) as error:
        sys.stderr.write(f"agent.packages: {error}\n")
        return 1
    write_sums(options.out)
    sys.stdout.write("".join(f"{package}\n" for package in packages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
