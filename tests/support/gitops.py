"""The judgement of tools of others about our objects: kstatus and Argo CD's health evaluation."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from support.components import gitops_folder

ARGOCD_CONFIG = Path(__file__).parents[2] / "docs" / "examples" / "gitops" / "argocd-cm.yaml"
"""The ConfigMap with the health script that the docs ship."""
SECONDS = 120


def compute_kstatus(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the status of each object by the library kstatus, such as `Current`."""
    return _judge(objects, "kstatus")


def compute_argocd_health(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the health of each object by Argo CD and our script, such as `Healthy`."""
    return _judge(objects, "argocd-health", str(ARGOCD_CONFIG))


def _judge(objects: Iterable[Mapping[str, Any]], program: str, *args: str) -> list[str]:
    done = subprocess.run(
        [gitops_folder() / program, *args],
        input="\n".join(json.dumps(each) for each in objects),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.split()[0] for line in done.stdout.splitlines()]
