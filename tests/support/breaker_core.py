"""A fleet with jobs, zones and kernels for tests of the breakers; time stands where it was set."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from support.clock import T0
from support.defender_core import OLD, ZONE, Core

from defender.decision.jobs import (
    JobRemedier,
    JobRung,
    JobStep,
    JobViewSpec,
    JobViewStatus,
    ObservedJob,
)
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.objects import (
    KubeObjectMeta,
    Node,
    NodeCondition,
    NodeInfo,
    NodeSpec,
    NodeStatus,
)

REBOOT = (JobRung(steps=({"restart": {}},)), JobRung(steps=({"reboot": {}},)))


def a_job(
    node: str,
    phase: str = "AwaitingPermit",
    *,
    created: datetime = T0,
    rule: str = "a-rule",
    fault_class: str = "kernel_deadlock",
    rung: int = 0,
    mode: str = "Enforce",
    ladder: tuple[JobRung, ...] = REBOOT,
    deadline: datetime | None = None,
    steps: tuple[JobStep, ...] = (),
    name: str = "",
) -> ObservedJob:
    return ObservedJob(
        KubeObjectMeta(
            name=name or f"job-{node}", uid=f"uid-job-{node}", creation_timestamp=created
        ),
        JobViewSpec(
            node_name=node,
            remedier=JobRemedier(rule),
            mode=mode,
            fault_class=fault_class,
            ladder=ladder,
            deadline=deadline,
        ),
        JobViewStatus(phase=phase, rung=rung, steps=steps),
    )


class Fleet(Core):
    """Core with nodes that change, and the jobs they get."""

    def __init__(self, *policies: LoadedPolicy) -> None:
        super().__init__(*policies)
        self.objects: dict[str, Node] = {}
        self.jobs: dict[str, ObservedJob] = {}

    def put(
        self,
        name: str,
        ready: str = "True",
        *,
        labels: Mapping[str, str] | None = None,
        kernel: str | None = None,
        revision: str | None = None,
        since: datetime | None = None,
        born: datetime = OLD,
        cordoned: bool = False,
    ) -> None:
        """A node as it is now; what is not given stays. `since`: Ready changed then.

        One that is put first was first heard of a day ago.
        """
        old = self.objects.get(name)
        meta = old.metadata if old is not None else None
        known = dict(meta.labels) if meta is not None else {}
        info = old.status.node_info if old is not None else NodeInfo()
        notes = dict(meta.annotations) if meta is not None else {}
        if revision is not None:
            notes["kubenode.io/component-revision"] = revision
        if since is None:
            since = self.now if old is not None else born + timedelta(hours=1)
        node = Node(
            KubeObjectMeta(
                name=name,
                uid=f"uid-{name}",
                labels=known if labels is None else dict(labels),
                annotations=notes,
                creation_timestamp=born if meta is None else meta.creation_timestamp,
            ),
            NodeSpec(unschedulable=cordoned),
            NodeStatus(
                [NodeCondition("Ready", ready, last_transition_time=host_time(since))],
                NodeInfo(kernel_version=info.kernel_version if kernel is None else kernel),
            ),
        )
        self.objects[name] = node
        heard = self.now if old is not None else min(self.now, T0 - timedelta(days=1))
        self.control.node_changed(name, node, heard)

    def zones(self, each: int, zones: str = "abc", **fields: str) -> None:
        """`each` nodes a0, a1, ... in zone a, and so on."""
        for zone in zones:
            for number in range(each):
                self.put(f"{zone}{number}", labels={ZONE: zone}, **fields)  # type: ignore[arg-type]

    def down(self, prefix: str, count: int, first: int = 0, ready: str = "False") -> None:
        for number in range(first, first + count):
            self.put(f"{prefix}{number}", ready)

    def up(self, prefix: str, count: int, first: int = 0) -> None:
        self.down(prefix, count, first, "True")

    def job(self, job: ObservedJob) -> None:
        old = self.jobs.get(job.metadata.name)
        self.jobs[job.metadata.name] = job
        self.control.job_changed(old, job, self.now)

    def no_job(self, name: str) -> None:
        self.control.job_changed(self.jobs.pop(name), None, self.now)

    def states(self, policy: str = "default") -> dict[str, BreakerState]:
        """Of breakers that are not closed; zones by their letter."""
        self.control.advance(self.now)
        found = self.control.breakers.status(policy)
        return {each.scope.rpartition("=")[2]: each.state for each in found}

    def restarted(self, *policies: LoadedPolicy) -> "Fleet":
        """Another Kube Defender that hears the same objects, in another order."""
        new = Fleet(*policies)
        new.now = self.now
        for job in reversed(self.jobs.values()):
            new.job(job)
        for name, node in reversed(self.objects.items()):
            new.objects[name] = node
            new.nodes(node)
        return new
