"""Kube Defender's core with its queue and somebody who hears calls; time is a test's."""

from datetime import datetime, timedelta
from typing import Any

from support.clock import T0
from support.defender_core import Core, a_node, a_policy, an_ask

from defender.decision.jobs import JobTrigger, JobViewSpec, JobViewStatus, ObservedJob
from defender.decision.policies import LoadedPolicy
from defender.decision.queue.entry import QueuePlace
from defender.decision.queue.selection import call
from defender.decision.verdict import judge
from kubenode.api.v1alpha1 import Ask, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube.objects import KubeObjectMeta

ZONE = "topology.kubernetes.io/zone"


def cluster(most: int, **limit: Any) -> LoadedPolicy:
    """So many permits at once in the cluster, and nothing else that stands in the way."""
    return a_policy(
        limits=[{"scope": "Cluster", "maxConcurrent": most} | limit],
        perNode={"maxActs": 1000, "within": "24h"},
        smallPool={"nodes": 0},
    )


class WaitingRoom(Core):
    """`called`: nodes of holders that were called, in order; `listening`: whether they hear it."""

    def __init__(self, *policies: LoadedPolicy, listening: bool = True) -> None:
        super().__init__(*policies)
        self.queue = self.control.queue
        self.queue.listen(listening)
        self.called: list[str] = []

    def zone(self, name: str, count: int) -> list[str]:
        """So many nodes in a zone; their names."""
        names = [f"{name}{i}" for i in range(count)]
        self.nodes(*(a_node(node, {ZONE: name}) for node in names))
        return names

    def judge(self, ask: Ask) -> Verdict:
        self.look()
        return self.queue.answered(ask, judge(ask, self.control, self.now), self.now)

    def look(self) -> list[str]:
        """Time has passed, or something became free; who is called now."""
        self.control.advance(self.now)
        now = [holder.name.removeprefix("job-") for holder in call(self.control, self.now)]
        self.called += now
        return now

    def step(self, **duration: float) -> None:
        self.now += timedelta(**duration)
        self.look()

    def hold(self, *nodes: str) -> list[str]:
        """Permits of these nodes."""
        permits = [self.ask(an_ask(node)).permit for node in nodes]
        assert all(permits)
        return permits

    def wait(self, *nodes: str, **fields: Any) -> None:
        """They ask, and are refused."""
        for node in nodes:
            assert not self.ask(an_ask(node, **fields)).allowed
            self.now += timedelta(milliseconds=1)

    def give_back(self, permit: str) -> list[str]:
        """Who is called for the slot."""
        self.release(permit)
        return self.look()

    def place(self, node: str) -> QueuePlace:
        return self.place_of(f"job-{node}", node)

    def place_of(self, holder: str, node: str) -> QueuePlace:
        place = self.queue.position(an_ask(node, holder=holder).holder, node)
        assert place is not None
        return place

    def order(self) -> list[str]:
        return [place.node for place in self.queue.waiting()]

    def fault(self, node: str, since: datetime) -> None:
        """The job of a node, as Kube Defender's informer shows it."""
        self.control.job_changed(None, a_job(node, since), self.now)


def a_job(node: str, since: datetime = T0, phase: str = "AwaitingPermit") -> ObservedJob:
    name = f"job-{node}"
    spec = JobViewSpec(node_name=node, mode="Enforce", trigger=JobTrigger(first_true=since))
    return ObservedJob(
        KubeObjectMeta(name=name, uid=f"uid-{name}"), spec, JobViewStatus(phase=phase)
    )


def holder_of(node: str) -> Holder:
    return an_ask(node).holder
