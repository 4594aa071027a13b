"""charts/kubenode/dashboards: Grafana dashboards, written from a few lines for each panel.

python -m devtools.grafana            write them
python -m devtools.grafana --check    exit 1 when one differs
"""

import json
from pathlib import Path

from devtools.generators import ROOT, run
from devtools.grafana.board import Board
from devtools.grafana.defender import DEFENDER
from devtools.grafana.machines import MACHINES
from devtools.grafana.repairs import HEALING

FOLDER = ROOT / "charts" / "kubenode" / "dashboards"
BOARDS: tuple[Board, ...] = (DEFENDER, HEALING, MACHINES)


def wanted() -> dict[Path, str]:
    return {
        FOLDER / f"{board.uid}.json": json.dumps(board.to_json(), indent=2) + "\n"
        for board in BOARDS
    }


def main(arguments: list[str]) -> int:
    return run(wanted(), arguments)
