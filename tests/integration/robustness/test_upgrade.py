"""An upgrade and the way back with jobs in flight: each version ends what the other began.

The older version is read from the repository's history, its processes run as its own code, and the
API server has its definitions first. They stay the newer ones on the way back, as Helm leaves them.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.documented import ROOT
from support.older_version import extract
from support.remedy_cluster import Cluster, connected, established, install_crds
from support.replicas import FAULT, Replica, marking_rule, say_of, started, wide_open

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]
PREVIOUS = "6de4be4e99cc"
"""Before jobs switched machines, handed over and superseded each other, and before Machines."""
CODE = ("agent", "defender", "kubenode", "remedy", "rules", "charts/kubenode/crds")
NODES = [f"upgrade-{i}" for i in range(5)]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The older version's tree."""
    return extract(PREVIOUS, tmp_path_factory.mktemp("previous"), *CODE)


@pytest.fixture
def old_plane(previous: Path) -> Iterator[ControlPlane]:
    """With the older version's definitions."""
    require(CONTROL_PLANE)
    with ControlPlane(controllers=False, scheduler=False) as found:
        crds = previous / "charts/kubenode/crds"
        found.kubectl("apply", "-f", crds)
        names = [file.stem.partition("_")[2] for file in crds.iterdir()]
        established(found, [f"crd/{name}.kubenode.io" for name in names])
        yield found


async def begun(cluster: Cluster, node: str) -> None:
    """A job cordons the node, and waits for the fault to go."""
    await cluster.say(node, FAULT, "True")

    def waits(job: RemedyOperationJob) -> bool:
        return job.spec.node_name == node and job.status.phase is JobPhase.VERIFYING

    await cluster.wait(waits, 120)


async def ends(cluster: Cluster, nodes: Sequence[str]) -> None:
    await say_of(cluster, nodes, "False")
    for node in nodes:
        await cluster.wait(lambda job, on=node: over(job, on), 120)  # type: ignore[misc]


def over(job: RemedyOperationJob, node: str) -> bool:
    closed = job.status.phase.closed and not job.metadata.finalizers
    return job.spec.node_name == node and closed


async def test_each_version_ends_what_the_other_began_and_does_nothing_twice(
    old_plane: ControlPlane, previous: Path, tmp_path: Path
) -> None:
    def replica(name: str, tree: Path) -> Replica:
        # Each hands its Lease over: nobody waits for it, and a busy machine takes it from none.
        return Replica(name, old_plane, tmp_path, tree, lease=60)

    old, new = replica("upgrade-old", previous), replica("upgrade-new", ROOT)
    back = replica("upgrade-back", previous)
    async with connected(old_plane) as cluster:
        await wide_open(cluster)
        for node in NODES:
            await cluster.node(node)
        await marking_rule(cluster)
        with started(old):
            await begun(cluster, NODES[0])
            await begun(cluster, NODES[1])
            install_crds(old_plane)
            with started(new):
                await new.said("waiting for the lease")
                old.stop(grace=40)
                await ends(cluster, [NODES[0]])
                await begun(cluster, NODES[2])
                with started(back):
                    await back.said("waiting for the lease")
                    new.stop(grace=40)
                    await ends(cluster, [NODES[1], NODES[2]])
        await as_it_must_be(cluster)
    assert new.says("leading") and back.says("leading")
    await asyncio.to_thread(stored_in_one_version, old_plane)


async def as_it_must_be(cluster: Cluster) -> None:
    """Three jobs, each step done once; nobody is left out of service, nobody else was touched."""
    jobs = await cluster.jobs()
    assert sorted(job.spec.node_name for job in jobs) == sorted(NODES[:3])
    assert {job.status.phase for job in jobs} == {JobPhase.SUCCEEDED}
    done = [(s.name, s.attempts) for job in jobs for s in job.status.steps]
    assert sorted(done) == [("cordon", 1)] * 3 + [("label", 1)] * 3
    for node in (await cluster.kube.get(paths.nodes()))["items"]:
        assert not node["spec"].get("unschedulable"), node["metadata"]
        assert "kubenode.io/cordoned-by" not in node["metadata"].get("annotations", {})
    permits = (await cluster.kube.get(paths.custom("permits")))["items"]
    assert {permit["status"]["state"] for permit in permits} == {"Released"}


def stored_in_one_version(plane: ControlPlane) -> None:
    """Else a later definition could not leave a version out."""
    for crd in plane.get(CRDS)["items"]:
        versions = crd["status"]["storedVersions"]
        assert versions == [v["name"] for v in crd["spec"]["versions"] if v["storage"]]
