"""HostProbes, HostEvents and facts of a rack on an API server: what is asked, told and inferred
becomes jobs, or keeps from them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster, connected, now, operating, stamp
from support.remedy_engine import two_engines

from kubenode.api.v1alpha1 import GROUP, HoldReason, HostProbe, RemedyOperationJob
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from remedy.operator import RemedyOperator

pytestmark = pytest.mark.integration
PROBES, HOST_EVENTS = paths.custom("hostprobes"), paths.custom("hostevents")
TELL = {"name": "tell", "steps": [{"notify": {"message": "look"}}]}
RACK = {"kubenode.io/rack": "r1"}


@pytest.fixture
async def cluster(plane: EmbeddedPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as found:
        yield found
        for path in (PROBES, HOST_EVENTS):
            await found.kube.call("DELETE", path)


def a_rule(when: dict[str, Any], **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"nodes": {"all": True}, "when": when, **changes}
    if "infer" in changes:
        return given
    return {"mode": "Enforce", "groupWait": "0s", "startupGrace": "0s", "ladder": [TELL], **given}


def fault(type_: str) -> dict[str, Any]:
    return {"condition": {"type": type_, "status": "True"}}


async def host_event(cluster: Cluster, operator: RemedyOperator, name: str, **parts: Any) -> None:
    """As Host Doctor: written first or anew; `phase` and `lastSeen` are of the status.

    Returns when the operator has heard of it and looked at every node that it concerns.
    """
    status = {"phase": parts.pop("phase", "Active"), "firstSeen": stamp(), "seen": 1}
    status["lastSeen"] = parts.pop("lastSeen", stamp())
    found = await cluster.kube.get(HOST_EVENTS)
    if name not in [o["metadata"]["name"] for o in found["items"]]:
        node = {"name": parts.pop("node", "")}
        spec = {"source": "Alertmanager", "class": "Alert", "externalID": name, "node": node}
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "HostEvent", "metadata": {"name": name}}
        await cluster.kube.create(HOST_EVENTS, {**body, "spec": {**spec, **parts}})
    path = paths.custom("hostevents", name, "status")
    written = await cluster.kube.patch(path, {"status": status})
    await operator.informers.host_events.wait_for(name, written["metadata"]["resourceVersion"])
    await settled(operator, quiet(operator))


async def cordoned(cluster: Cluster, node: str) -> bool:
    spec = (await cluster.kube.get(paths.node(node))).get("spec", {})
    return bool(spec.get("unschedulable"))


async def settled(operator: RemedyOperator, what: Callable[[], bool], seconds: float = 60) -> None:
    deadline = SystemClock().monotonic() + seconds
    while not what():
        assert SystemClock().monotonic() < deadline, "not in time"
        await SystemClock().sleep(0.02)


def quiet(operator: RemedyOperator) -> Callable[[], bool]:
    """Nothing waits to be looked at."""
    queue = operator.remedier.queue
    return lambda: len(queue) == 0 and queue.busy == 0


async def test_a_host_is_asked_and_its_answer_makes_the_job(cluster: Cluster) -> None:
    await cluster.node("p1", annotations={"kubenode.io/machine": "machine-of-p1"})
    full = {"all": [fault("Slow"), {"probe": {"name": "disk.used_pct", "above": 90}}]}
    await cluster.rule("full-disk", **a_rule(full))
    async with operating(cluster.operator(two_engines())) as operator:
        await settled(operator, quiet(operator))
        assert (await cluster.kube.get(PROBES))["items"] == []
        await cluster.say("p1", "Slow", "True")
        await settled(operator, lambda: len(operator.informers.probes.cache) == 1)
        (probe,) = operator.informers.probes.cache.values()
        assert (probe.spec.agent, probe.spec.node_name) == ("machine-of-p1", "p1")
        assert probe.spec.name == "disk"
        assert timedelta(0) < probe.spec.expires_at - now() <= timedelta(seconds=30)
        assert await cluster.jobs() == []
        answer = {"answer": {"used_pct": 95.5, "space_ok": False}, "answeredAt": stamp()}
        path = paths.custom("hostprobes", probe.metadata.name, "status")
        await cluster.kube.patch(path, {"status": answer})
        job = await cluster.wait(lambda j: j.status.phase == "Verifying")
        assert job.spec.node_name == "p1"
        assert any("disk.used_pct" in fact.atom for fact in job.spec.trigger.facts)
        assert operator.ready()


async def test_an_answered_question_is_removed_in_time(cluster: Cluster) -> None:
    old = now() - timedelta(minutes=11)
    body = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "HostProbe",
        "metadata": {"name": "p9-disk-old"},
        "spec": {"agent": "p9", "nodeName": "p9", "name": "disk", "expiresAt": old.isoformat()},
    }
    await cluster.kube.create(PROBES, body)
    async with operating(cluster.operator(two_engines())) as operator:
        raw = json.dumps(await cluster.kube.get(paths.custom("hostprobes", "p9-disk-old")))
        probe = HostProbe.from_server(raw.encode())
        aged = probe.metadata.model_copy(update={"creation_timestamp": old})
        operator.informers.probes.cache["p9-disk-old"] = probe.model_copy(update={"metadata": aged})
        operator.questions.queue.add("p9-disk-old")
        await settled(operator, lambda: not operator.informers.probes.cache)
    assert (await cluster.kube.get(PROBES))["items"] == []


async def test_an_alert_makes_a_job_only_while_its_source_is_heard(cluster: Cluster) -> None:
    await cluster.node("a1")
    await cluster.rule("disk", **a_rule({"alert": {"name": "NodeDiskIOError"}}))
    async with operating(cluster.operator(two_engines())) as operator:
        alert = {"attributes": {"alertname": "NodeDiskIOError"}, "node": "a1"}
        await host_event(cluster, operator, "disk-a1", **alert)
        facts = operator.facts.facts("a1")
        assert facts is not None and [a.name for a in facts.alerts] == ["NodeDiskIOError"]
        assert facts.alerts_alive_at is None
        assert await cluster.jobs() == [], "whether its source lives is not known"
        silent = stamp(now() - timedelta(hours=2))
        dog = {"attributes": {"alertname": "Watchdog"}}
        await host_event(cluster, operator, "watchdog", lastSeen=silent, **dog)
        assert await cluster.jobs() == [], "it was heard, but long ago"
        await host_event(cluster, operator, "watchdog", **dog)
        job = await cluster.wait(lambda j: j.status.phase == "Verifying")
        assert job.spec.node_name == "a1"


async def test_a_planned_event_makes_a_job_and_its_end_cancels_it(cluster: Cluster) -> None:
    await cluster.node("e1")
    steps: list[dict[str, Any]] = [{"cordon": {}}, {"wait": {"for": "5s"}}]
    cordon = {"name": "cordon", "steps": [*steps, {"migrate": {"timeout": "60s"}}]}
    when = {"hostEvent": {"class": "Reboot"}}
    await cluster.rule("reboot", **a_rule(when, ladder=[cordon]))
    planned = {"source": "AWS", "class": "Reboot", "node": "e1"}
    async with operating(cluster.operator(two_engines())) as operator:
        await host_event(cluster, operator, "aws-1", **planned)
        await cluster.wait(lambda j: j.status.step == 1)
        assert await cordoned(cluster, "e1")
        await host_event(cluster, operator, "aws-1", phase="Cancelled")
        done = await cluster.wait(lambda j: j.status.phase.closed)
        assert done.status.phase == "Cancelled"
        assert not await cordoned(cluster, "e1")
        assert cluster.permits.held == {}


async def test_f09_a_rule_that_is_switched_off_does_nothing_at_all(cluster: Cluster) -> None:
    await cluster.node("e2")
    when = {"hostEvent": {"class": "Rebalance"}}
    await cluster.rule("hint", **a_rule(when, mode="Off"))
    async with operating(cluster.operator(two_engines())) as operator:
        await host_event(
            cluster, operator, "aws-2", source="AWS", **{"class": "Rebalance"}, node="e2"
        )
        assert await cluster.jobs() == []
        assert not await cordoned(cluster, "e2")


def unbegun(job: RemedyOperationJob) -> bool:
    """It has asked for nothing, done nothing and told nobody."""
    status = job.status
    return status.timeline.job_created is None and not status.steps and status.permit is None


def guarded(name: str, job: RemedyOperationJob) -> bool:
    """It is the job of this name, its wait is over, and a guard keeps it from beginning."""
    held = job.status.hold
    waits = held is not None and held.reason == HoldReason.GUARD_TRUE
    return job.metadata.name == name and unbegun(job) and waits


async def test_a_rack_that_lost_its_power_holds_the_weaker_rule(cluster: Cluster) -> None:
    dark = {"condition": {"type": "Ready", "status": "Unknown"}}
    many = {"all": [dark, {"fact": {"name": "rack.sameFault", "above": 2}}]}
    fact = {"fact": "rack.suspectPowerLoss", "scope": "Rack", "for": "10m"}
    await cluster.rule("power", **a_rule(many, infer=fact))
    held = {"fact": {"name": "rack.suspectPowerLoss"}}
    await cluster.rule("not-ready", **a_rule(dark, unless=held, groupWait="3s"))
    for i in range(5):
        await cluster.node(f"r{i}", labels=RACK)
    await cluster.node("alone", labels={"kubenode.io/rack": "r2"})
    async with operating(cluster.operator(two_engines())) as operator:
        await settled(operator, quiet(operator))
        async with asyncio.TaskGroup() as together:
            for i in range(4):
                together.create_task(cluster.say(f"r{i}", "Ready", "Unknown"))
        await cluster.say("alone", "Ready", "Unknown")
        job = await cluster.wait(lambda j: j.status.timeline.job_created is not None)
        assert job.spec.node_name == "alone", "only the one whose rack has power"
        for early in await cluster.jobs():  # some were made before the others were dark
            if early.spec.node_name != "alone":
                await cluster.wait(partial(guarded, early.metadata.name))

        def power() -> list[dict[str, Any]]:
            return [
                e.to_dict() for e in operator.informers.remediers.cache["power"].status.inferred
            ]

        def seen() -> set[str]:
            return {node for entry in power() for node in entry["nodes"]}

        await settled(operator, lambda: seen() == {f"r{i}" for i in range(4)})
        assert [(entry["group"], entry["value"]) for entry in power()] == [("r1", True)]
        for i in range(4):
            await cluster.say(f"r{i}", "Ready", "True")
        await settled(operator, lambda: "until" in str(power()))
        facts = operator.facts.facts("r4")
        assert facts is not None and facts.inferred == {"rack.suspectPowerLoss": True}
        await settled(operator, quiet(operator))
        jobs = await cluster.jobs()
        assert [j.spec.node_name for j in jobs if not unbegun(j)] == ["alone"]
        assert cluster.permits.asked == []

    async with operating(cluster.operator(two_engines())) as anew:
        await settled(anew, quiet(anew))
        facts = anew.facts.facts("r4")
        assert facts is not None and facts.inferred == {"rack.suspectPowerLoss": True}, "kept"


async def test_the_operator_answers_what_the_api_server_knows(cluster: Cluster) -> None:
    """Nobody else is asked whether a pod of a gang is there; it makes the job of one node only."""
    for name in ("g1", "g2"):
        await cluster.node(name)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "w-0", "labels": {"training.kubeflow.org/job-name": "t"}},
        "spec": {"nodeName": "g1", "containers": [{"name": "w", "image": "w"}]},
    }
    await cluster.kube.create(paths.pods("default"), pod)
    when = {"all": [fault("Gang"), {"probe": {"name": "ready.gang_pods"}}]}
    await cluster.rule("gang", **a_rule(when))

    def answers(operator: RemedyOperator) -> dict[str, object]:
        found = operator.informers.probes.cache.values()
        return {p.spec.node_name: p.status.answer.get("gang_pods") for p in found}

    async with operating(cluster.operator(two_engines())) as operator:
        for name in ("g1", "g2"):
            await cluster.say(name, "Gang", "True")
        await settled(operator, lambda: answers(operator) == {"g1": True, "g2": False})
        job = await cluster.wait(lambda j: True)
        assert job.spec.node_name == "g1"
        await settled(operator, quiet(operator))
        assert [j.spec.node_name for j in await cluster.jobs()] == ["g1"]
