"""`helm upgrade` from the chart of the last verified commit while a job drains a node.

The programs of both charts run as processes with the flags and rights of their pods. Nothing is
lost, no step is done twice, and every object is stored in one version.
"""

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support import waiting
from support.chart_plane import NODE as CENTRAL
from support.chart_plane import ChartPrograms, ready, secret
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.documented import ROOT
from support.helm import CHART, NAMESPACE, Helm, documents
from support.older_version import extract
from support.remedy_cluster import Cluster, connected, established, install_crds
from support.replicas import FAULT, START, wide_open

from kubenode.api.base import GROUP, VERSION
from kubenode.api.v1alpha1 import KINDS, JobPhase, RemedyOperationJob
from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]
NODE, POD, BUDGET = "upgraded", "cart-1", "cart"
VALUES = {
    "rules": {"packs": ["time"]},
    "machine": {"enabled": False},
    "agent": {"enabled": False},
}
LADDER = [
    {
        "name": "move",
        "steps": [
            {"cordon": {}},
            {"migrate": {"timeout": "10m"}},
            {"label": {"key": "kubenode.io/suspect-repair", "value": "yes"}},
        ],
        "verify": {"for": "1s", "settle": "0s", "timeout": "10m"},
    }
]
RELEASE = ("kubenode", "-n", NAMESPACE)
DEFENDER = f"StatefulSet/{NAMESPACE}/kubenode-defender"
REMEDY = f"Deployment/{NAMESPACE}/kubenode-remedy"
SECRET = "kubenode-defender"
PATIENCE = 120.0
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the last verified commit."""
    commit = (ROOT / ".ci/verified").read_text().strip()
    return extract(commit, tmp_path_factory.mktemp("previous"))


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """With a node for the Job of the chart's hook, on which kwok says that it succeeded."""
    require(CONTROL_PLANE)
    with ControlPlane(kwok=True) as cp:
        cp.kubectl("apply", "-f", "-", stdin=json.dumps(CENTRAL))
        yield cp


@contextmanager
def programs_run(plane: ControlPlane, chart: str, tree: Path, folder: Path) -> Iterator[None]:
    """Kube Defender and the Remedy operator of a rendered chart, until the end of the block."""
    folder.mkdir()
    command = folder / "kubenode"
    run = f"PYTHONPATH={tree} exec {sys.executable} -P -c '{START}'"
    command.write_text(f'#!/bin/sh\n{run} "$@"\n')
    command.chmod(0o755)
    programs = ChartPrograms(plane, documents(chart), folder, command)
    with ExitStack() as stack:
        urls = [stack.enter_context(programs.running(DEFENDER))]
        waiting.until(lambda: "ca.crt" in secret(plane, SECRET), "there is a certificate", PATIENCE)
        programs.authority.write_bytes(base64.b64decode(secret(plane, SECRET)["ca.crt"]))
        urls.append(stack.enter_context(programs.running(REMEDY)))
        waiting.until(lambda: all(map(ready, urls)), "both are ready", PATIENCE)
        yield


async def fault_with_a_pod_that_must_stay(cluster: Cluster) -> None:
    await wide_open(cluster)
    await cluster.node(NODE)
    await cluster.pod(NODE, "default", POD, "cart")
    budget = {
        "metadata": {"name": BUDGET},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "cart"}}},
    }
    await cluster.kube.create(paths.pod_disruption_budgets("default"), budget)
    await cluster.rule(
        "cable",
        mode="Enforce",
        nodes={"all": True},
        when={"condition": {"type": FAULT, "status": "True"}},
        groupWait="0s",
        startupGrace="0s",
        ladder=LADDER,
    )
    await cluster.say(NODE, FAULT, "True")


def drains(job: RemedyOperationJob) -> bool:
    return job.status.hold is not None and job.status.hold.reason == "PDBBlocked"


def labelled(job: RemedyOperationJob) -> bool:
    return job.status.phase is JobPhase.VERIFYING


def closed(job: RemedyOperationJob) -> bool:
    return job.status.phase.closed and not job.metadata.finalizers


def stored_in_one_version(plane: ControlPlane) -> bool:
    kinds = [crd for crd in plane.get(CRDS)["items"] if crd["spec"]["group"] == GROUP]
    return len(kinds) == len(KINDS) and all(
        crd["status"]["storedVersions"] == [VERSION] for crd in kinds
    )


async def test_upgrade_of_the_chart_in_the_middle_of_a_drain_loses_nothing(
    plane: ControlPlane, previous: Path, helm: Helm, tmp_path: Path
) -> None:
    here, older = Helm(tmp_path, plane.kubeconfig), previous / "charts/kubenode"
    here.done("install", *RELEASE, older, "--create-namespace", values=VALUES)
    names = [file.stem.partition("_")[2] for file in (older / "crds").glob("*.yaml")]
    established(plane, [f"crd/{name}.{GROUP}" for name in names])
    before = here.done("template", *RELEASE, older, values=VALUES)
    async with connected(plane) as cluster:
        with programs_run(plane, before, previous, tmp_path / "old"):
            await fault_with_a_pod_that_must_stay(cluster)
            begun = await cluster.wait(drains, 120)
            install_crds(plane)  # as the Job of the chart's hook does, which kwok does not run
            here.done("upgrade", *RELEASE, CHART, values=VALUES)
        after = here.done("template", *RELEASE, CHART, values=VALUES)
        with programs_run(plane, after, ROOT, tmp_path / "new"):
            await cluster.kube.delete(f"{paths.pod_disruption_budgets('default')}/{BUDGET}")
            await cluster.wait(labelled, 120)
            await cluster.say(NODE, FAULT, "False")
            job = await cluster.wait(closed, 120)
        assert [found.metadata.name for found in await cluster.jobs()] == [begun.metadata.name]
        assert job.status.phase is JobPhase.SUCCEEDED
        steps = [(step.name, step.attempts) for step in job.status.steps if step.name != "migrate"]
        assert steps == [("cordon", 1), ("label", 1)]
        node = await cluster.kube.get(paths.node(NODE))
        assert not node["spec"].get("unschedulable")
        permits = (await cluster.kube.get(paths.custom("permits")))["items"]
        assert [permit["status"]["state"] for permit in permits] == ["Released"]
    assert stored_in_one_version(plane)
