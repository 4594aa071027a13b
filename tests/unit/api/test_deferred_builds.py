"""Programs start without the validators of kinds that they never read."""

import subprocess
import sys

COMPLETE = """
from kubenode.api.v1alpha1 import KINDS
print(*[kind.__name__ for kind in KINDS if kind.__pydantic_complete__])
"""


def test_import_of_the_kinds_builds_no_validator() -> None:
    command = [sys.executable, "-c", COMPLETE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
