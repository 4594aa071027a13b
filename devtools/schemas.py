"""docs/reference/schema: JSON schemas of our kinds and of rule tests, for editors.

python -m devtools.schemas            write docs/reference/schema
python -m devtools.schemas --check    exit 1 and name the files that differ
"""

import sys
from pathlib import Path

from devtools.generators import ROOT, run
from kubenode.api.jsonschema import files, text
from kubenode.cli.schema import RULE_TEST
from simulation.replay.schema import of_rule_tests

FOLDER = ROOT / "docs" / "reference" / "schema"


def wanted() -> dict[Path, str]:
    made = {FOLDER / name: content for name, content in files().items()}
    return made | {FOLDER / f"{RULE_TEST.lower()}.json": text(of_rule_tests())}


def main(arguments: list[str]) -> int:
    return run(wanted(), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
