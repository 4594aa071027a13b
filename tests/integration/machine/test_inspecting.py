"""Inspections under the operator's rights: a real Prometheus is asked, real Jobs run."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.machine_world import running, until
from support.prometheus import Prometheus
from support.remedy_cluster import Cluster, connected

from kubenode.api.v1alpha1.machinecomponentset import InspectionCheck
from kubenode.runtime.kube import paths
from machine.ground import MachineSettings
from machine.inspection.jobs import job_name
from machine.inspection.port import Inspected, InspectionAnswer, InspectionResult
from machine.inspection.prometheus import Prometheus as Asker
from machine.inspection.prometheus import PrometheusUnanswered
from machine.names import COMPONENTS
from machine.operator import MachineOperator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

SETS = paths.custom("machinecomponentsets")
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "smoke", "image": "none"}],
            }
        },
    },
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    nobody = f"127.0.0.1:{free_port()}"
    with Prometheus(tmp_path_factory.mktemp("prometheus"), [nobody]) as found:
        yield found


@pytest.fixture
async def operator(cluster: ControlPlane, prometheus: Prometheus) -> AsyncIterator[MachineOperator]:
    async with running(cluster, MachineSettings(prometheus=prometheus.url)) as found:

        async def ready() -> bool:
            return found.ready()

        await until(ready, "the operator's caches are not current")
        yield found


@pytest.fixture
async def hands(cluster: ControlPlane) -> AsyncIterator[Cluster]:
    async with connected(cluster) as found:
        yield found


def asks(query: str, success: str) -> InspectionCheck:
    given = {"query": query, "success": success}
    return InspectionCheck.model_validate({"name": "ask", "type": "PromQL", "promQL": given})


def a_job(name: str, ref: str, timeout: str) -> InspectionCheck:
    given = {"configMapRef": ref, "timeout": timeout}
    return InspectionCheck.model_validate({"name": name, "type": "Job", "job": given})


async def ended(
    operator: MachineOperator, check: InspectionCheck, what: Inspected
) -> InspectionAnswer:
    async def look() -> InspectionAnswer | None:
        answer = await operator.inspector.inspect([check], what)
        return answer if answer.judged is not InspectionResult.PENDING else None

    return await until(look, f"{check.name} does not end", 180)


@pytest.fixture
async def what(hands: Cluster) -> AsyncIterator[Inspected]:
    """A set that is there: the cluster takes away the Jobs of one that is not."""
    spec = {"selector": {"matchLabels": {"none": "of-them"}}, "component": "absent-1"}
    kind = {"apiVersion": "kubenode.io/v1alpha1", "kind": "MachineComponentSet"}
    body = {**kind, "metadata": {"name": "containerd"}, "spec": spec}
    made = await hands.kube.create(SETS, body)
    yield Inspected("containerd", made["metadata"]["uid"], "1-90d2c7e1fa/1/1", [])
    await hands.kube.delete(f"{SETS}/containerd")


async def test_a_real_prometheus_answers_for_the_nodes_of_the_batch(
    operator: MachineOperator,
) -> None:
    what = Inspected("containerd", "u", "r", ["sh-1.example", "sh-2"])
    inspect = operator.inspector.inspect
    one = 'label_replace(vector(1), "node", "${nodes}", "", "")'
    assert (await inspect([asks(one, "== 1")], what)).judged is InspectionResult.PASSED
    failed = await inspect([asks(one, "> 1")], what)
    assert failed.judged is InspectionResult.FAILED and "sh-1[.]example|sh-2" in failed.message
    selected = 'up{job="kubenode",node=~"${nodes}"}'
    nothing = await inspect([asks(selected, "> 0")], what)
    assert nothing.judged is InspectionResult.INCONCLUSIVE and "finds nothing" in nothing.message
    broken = await inspect([asks('up{node=~"${nodes}"', "> 0")], what)
    assert broken.judged is InspectionResult.INCONCLUSIVE and "parse error" in broken.message


async def test_without_a_prometheus_there_is_no_answer() -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    for url, says in (("", "--prometheus-url"), (gone, "cannot be reached")):
        with pytest.raises(PrometheusUnanswered, match=says):
            await Asker(url).ask("up")


async def test_a_job_runs_once_and_its_end_is_the_answer(
    operator: MachineOperator, hands: Cluster, what: Inspected
) -> None:
    maps = f"/api/v1/namespaces/{COMPONENTS}/configmaps"
    data: dict[str, Any] = {"job.yaml": json.dumps(JOB)}
    await hands.kube.create(maps, {"metadata": {"name": "smoke"}, "data": data})
    jobs = f"/apis/batch/v1/namespaces/{COMPONENTS}/jobs"
    good, late = a_job("good", "smoke", "5m"), a_job("late", "smoke", "1s")
    try:
        for _ in range(3):
            answer = await operator.inspector.inspect([good], what)
            assert answer.judged is InspectionResult.PENDING
        assert len((await hands.kube.get(jobs))["items"]) == 1
        name = job_name("good", what)

        async def pod() -> str:
            query = {"labelSelector": f"batch.kubernetes.io/job-name={name}"}
            found = (await hands.kube.get(paths.pods(COMPONENTS), query=query))["items"]
            return found[0]["metadata"]["name"] if found else ""

        path = paths.pod(COMPONENTS, await until(pod, "the Job has no pod"), "status")
        await hands.kube.patch(path, {"status": {"phase": "Succeeded"}})
        assert (await ended(operator, good, what)).judged is InspectionResult.PASSED
        failed = await ended(operator, late, what)
        assert failed.judged is InspectionResult.FAILED and job_name("late", what) in failed.message
        absent = await operator.inspector.inspect([a_job("x", "absent", "5m")], what)
        assert absent.judged is InspectionResult.INCONCLUSIVE
        assert f"there is no ConfigMap {COMPONENTS}/absent" in absent.message
    finally:
        await hands.kube.delete(f"{maps}/smoke")
        for found in (await hands.kube.get(jobs))["items"]:
            await hands.kube.delete(f"{jobs}/{found['metadata']['name']}")
