"""charts/kubenode/dashboards: Grafana dashboards, written from a few lines for each panel.

python -m kubenode.cli.grafana            write them
python -m kubenode.cli.grafana --check    exit 1 when one differs
"""

import json
from pathlib import Path

from kubenode.api.generated import ROOT, run
from kubenode.cli.grafana.board import Board
from kubenode.cli.grafana.defender import DEFENDER
from kubenode.cli.grafana.healing import HEALING
from kubenode.cli.grafana.machines import MACHINES

FOLDER = ROOT / "charts" / "kubenode" / "dashboards"
BOARDS: tuple[Board, ...] = (DEFENDER, HEALING, MACHINES)


def wanted() -> dict[Path, str]:
    return {
        FOLDER / f"{board.uid}.json": json.dumps(board.to_json(), indent=2) + "\n"
        for board in BOARDS
    }


def main(arguments: list[str]) -> int:
    return run(wanted(), arguments)
