"""docs/reference/rule-coverage.md: which rule of the library serves which row of vendor tables.

python -m devtools.rule_coverage            write docs/reference/rule-coverage.md
python -m devtools.rule_coverage --check    exit 1 when it differs, a row is neither served nor
                                            answered, an answer is for a row that is served, or a
                                            fault of a control plane node reaches nobody
"""

import os
import sys

from devtools.generators import ROOT, run
from simulation.coverage import VARIABLE, answered, folder_of, served, wrong
from simulation.coverage.page import page
from simulation.coverage.rows import NoData, rows

FILE = ROOT / "docs" / "reference" / "rule-coverage.md"


def main(arguments: list[str]) -> int:
    folder = folder_of(None)
    try:
        given = rows(folder)
        answers = answered(given)
    except NoData as error:
        sys.stderr.write(f"rule coverage is not checked: {error}\n")
        return int(VARIABLE in os.environ or folder.is_dir())
    served_rows = served(given, answers)
    problems = wrong(served_rows, answers)
    for line in problems:
        sys.stderr.write(f"{line}\n")
    return max(run({FILE: page(served_rows)}, arguments), int(bool(problems)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
