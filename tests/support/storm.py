"""A fleet in zones, for tests of storms: what fails, recovers and asks. Pure, no server."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from support.clock import T0
from support.defender_core import OLD, ZONE, Core, a_node, an_ask

from defender.decision.jobs import (
    Evidence,
    JobRemedier,
    JobTrigger,
    JobViewSpec,
    JobViewStatus,
    ObservedJob,
)
from defender.decision.policies import LoadedPolicy, read_policy
from kubenode.api.v1alpha1 import Ask, Disruption, Verdict, default_policy
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeStatus

STORM, OTHER = "runtime_unhealthy", "readonly_filesystem"
"""Fault classes: the storm's, and one of a single fault."""
PROBE = "probe"


def shipped() -> LoadedPolicy:
    """The policy that holds where nobody wrote one."""
    return read_policy(default_policy().model_dump_json(by_alias=True, exclude_none=True).encode())


def silent(node: Node, since: datetime) -> Node:
    """As the node controller writes it when the kubelet's heartbeat has stopped."""
    ready = NodeCondition("Ready", "Unknown", last_transition_time=host_time(since))
    return Node(node.metadata, node.spec, NodeStatus([ready], node.status.node_info))


class Zones(Core):
    """`each` nodes in every zone, named a0, a1, ... b0, ...; every node was ready for long."""

    def __init__(
        self, each: int = 100, zones: str = "abc", policy: LoadedPolicy | None = None
    ) -> None:
        super().__init__(policy or shipped())
        self.names = {zone: [f"{zone}{i}" for i in range(each)] for zone in zones}
        self.jobs: dict[str, ObservedJob] = {}
        for zone, names in self.names.items():
            for name in names:
                self.nodes(a_node(name, {ZONE: zone}))
        self.step(seconds=0)

    @property
    def every(self) -> list[str]:
        return [name for names in self.names.values() for name in names]

    # -- what happens ---------------------------------------------------------------------------

    def down(self, names: Iterable[str]) -> None:
        self._say(names, ready=False)

    def up(self, names: Iterable[str]) -> None:
        self._say(names, ready=True)

    def _say(self, names: Iterable[str], *, ready: bool) -> None:
        self.nodes(*(a_node(n, self._labels(n), ready=ready, since=self.now) for n in names))
        self.step(seconds=0)

    def hush(self, names: Iterable[str]) -> None:
        """Their heartbeats stop."""
        self.nodes(*(silent(a_node(n, self._labels(n)), self.now) for n in names))
        self.step(seconds=0)

    def _labels(self, name: str) -> dict[str, str]:
        member = self.census.member(name)
        return member.labels if member is not None else {ZONE: name[0]}

    def job(
        self, node: str, fault_class: str = STORM, *sources: str, phase: str = "AwaitingPermit"
    ) -> ObservedJob:
        """A rule made a job for the node, or its job came to `phase`."""
        old = self.jobs.get(node)
        made = old.metadata.creation_timestamp if old is not None else self.now
        facts = tuple(Evidence(source=source) for source in sources)
        new = ObservedJob(
            KubeObjectMeta(name=f"job-{node}", uid=f"uid-job-{node}", creation_timestamp=made),
            JobViewSpec(
                node_name=node,
                remedier=JobRemedier(name=fault_class),
                trigger=JobTrigger(facts=facts),
                mode="Enforce",
                fault_class=fault_class,
            ),
            JobViewStatus(phase=phase),
        )
        self.jobs[node] = new
        self.control.job_changed(old, new, self.now)
        self.step(seconds=0)
        return new

    def asks(
        self,
        node: str,
        class_: Disruption = Disruption.HOST,
        fault_class: str = STORM,
        evidence: Iterable[str] = ("NPD",),
    ) -> Verdict:
        """The node's job asks, and takes what it gets."""
        return self.ask(self.question(node, class_, fault_class, evidence))

    def question(
        self,
        node: str,
        class_: Disruption = Disruption.HOST,
        fault_class: str = STORM,
        evidence: Iterable[str] = ("NPD",),
    ) -> Ask:
        return an_ask(node, class_, fault_class=fault_class, evidence=list(evidence))

    def gives_back(self, verdict: Verdict) -> None:
        self.release(verdict.permit)
        self.step(seconds=0)

    # -- what is so -----------------------------------------------------------------------------

    def breaker(self, scope: str) -> BreakerState:
        """Of `cluster`, or of a zone by its letter."""
        name = scope if scope == "cluster" else f"{ZONE}={scope}"
        found = self.control.breakers.status(self.policies[0].name)
        return next((b.state for b in found if b.scope == name), BreakerState.CLOSED)

    def minutes(self, count: float, every: float = 0.5) -> Iterator[timedelta]:
        """Let time pass in steps of `every` minutes; yields the time since the start."""
        end = self.now + timedelta(minutes=count)
        while self.now < end:
            self.step(minutes=every)
            yield self.now - T0

    def pass_(self, minutes: float) -> None:
        for _ in self.minutes(minutes):
            pass


BORN_LATELY = T0 - timedelta(minutes=1)
LONG_AGO = OLD
