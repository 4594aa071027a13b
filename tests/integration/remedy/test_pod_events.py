"""The kubelet's warnings about pods make a job of their node, as a real API server selects them."""

from typing import Any

import pytest
from support.remedy_cluster import Cluster, now, operating
from support.remedy_engine import two_engines

from kubenode.api.meta import format_time
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths

pytestmark = pytest.mark.integration
RULE: dict[str, Any] = {
    "mode": "Enforce",
    "faultClass": "container_create_failed",
    "nodes": {"all": True},
    "when": {
        "any": [
            {"event": {"reason": "FailedCreatePodSandBox", "count": 2}},
            {"event": {"reason": "BackOff"}},
        ]
    },
    "groupWait": "0s",
    "startupGrace": "0s",
    "ladder": [{"name": "tell", "steps": [{"notify": {"message": "look"}}]}],
}


async def reported(cluster: Cluster, node: str, name: str, reason: str, **parts: Any) -> None:
    """As the kubelet of `node` writes it about one of its pods."""
    at = format_time(now())
    event = {
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "apiVersion": "v1"},
        "source": {"component": "kubelet", "host": node},
        "type": "Warning",
        "reason": reason,
        "message": "failed to create pod sandbox",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    await cluster.kube.create(paths.events("default"), event | parts)


ATTACHING: dict[str, Any] = RULE | {
    "faultClass": "volume_stuck",
    "when": {"event": {"reason": "FailedAttachVolume", "count": 3}},
}


async def test_a_volume_that_cannot_be_attached_makes_a_job_of_the_pods_node(
    cluster: Cluster,
) -> None:
    """The attach-detach controller names no host; a host in its Event is not believed."""
    for node in ("v1", "v2"):
        await cluster.node(node)
    await cluster.rule("attaching", **ATTACHING)
    container = {"name": "c", "image": "i"}
    spec = {"nodeName": "v1", "containers": [container], "terminationGracePeriodSeconds": 0}
    body = {"metadata": {"name": "db-0"}, "spec": spec}
    pod = (await cluster.kube.create(paths.pods("default"), body))["metadata"]
    about = {"kind": "Pod", "name": "db-0", "namespace": "default", "uid": pod["uid"]}
    by = {"component": "attachdetach-controller", "host": "v2"}
    known = {"source": by, "count": 3, "message": 'Multi-Attach error for volume "pvc-1"'}
    try:
        async with operating(cluster.operator(two_engines())):
            gone = about | {"uid": "of-an-earlier-pod"}
            parts = known | {"involvedObject": gone}
            await reported(cluster, "v2", "v.gone", "FailedAttachVolume", **parts)
            parts = known | {"involvedObject": about}
            await reported(cluster, "v2", "v.attach", "FailedAttachVolume", **parts)
            deadline = SystemClock().monotonic() + 30
            while not (jobs := await cluster.jobs()):
                assert SystemClock().monotonic() < deadline, "no job"
                await SystemClock().sleep(0.05)
            await SystemClock().sleep(1)
            jobs = await cluster.jobs()
        assert {job.spec.node_name for job in jobs} == {"v1"}
    finally:
        await cluster.kube.delete(paths.pod("default", "db-0"))


async def test_warnings_about_pods_of_a_node_make_its_job(cluster: Cluster) -> None:
    for node in ("p1", "p2", "p3"):
        await cluster.node(node)
    await cluster.rule("sandboxes", **RULE)
    # One comes before the operator starts.
    await reported(cluster, "p1", "p1.before", "FailedCreatePodSandBox")
    async with operating(cluster.operator(two_engines())):
        await reported(cluster, "p2", "p2.once", "FailedCreatePodSandBox")
        await reported(cluster, "p3", "p3.backoff", "BackOff")
        normal = {"type": "Normal", "count": 9}
        await reported(cluster, "p3", "p3.normal", "FailedCreatePodSandBox", **normal)
        await reported(cluster, "p1", "p1.after", "FailedCreatePodSandBox")
        deadline = SystemClock().monotonic() + 30
        while not (jobs := await cluster.jobs()):
            assert SystemClock().monotonic() < deadline, "no job"
            await SystemClock().sleep(0.05)
        await SystemClock().sleep(1)
        jobs = await cluster.jobs()
    assert {job.spec.node_name for job in jobs} == {"p1"}
