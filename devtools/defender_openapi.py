"""The OpenAPI document of Kube Defender's API, written from its routes and models.

python -m devtools.defender_openapi            write docs/reference/defender-openapi.json
python -m devtools.defender_openapi --check    exit 1 and name the file if it differs
"""

import json
import sys
from typing import Any

from defender.server.auth.gate import open_gate
from defender.server.http.app import create_app
from devtools.generators import ROOT, run
from kubenode.runtime.clock import SystemClock

FILE = ROOT / "docs" / "reference" / "defender-openapi.json"
NOBODY: Any = None
"""Stands for the service, which generating the document does not call."""


def document() -> dict[str, Any]:
    return create_app(NOBODY, NOBODY, open_gate(SystemClock())).openapi()


def text() -> str:
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    return run({FILE: text()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
