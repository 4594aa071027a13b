"""The records of simulated nodes, which stay in memory."""

from collections.abc import Callable
from datetime import datetime

from kubenode.api.v1alpha1.noderecord import NodeRecordSpec, WouldHave
from kubenode.runtime.kube.objects import Node
from remedy.job.model import ACTING, Job
from remedy.noderecord import memory
from remedy.noderecord.store import EventsUntil
from remedy.remedier.past import Past
from rules.diagnose import Diagnosis
from rules.facts import FactSet


class SimulatedRecords:
    """Implements the node records of the operator in memory.

    node: returns the Node of a name, None if there is none.
    events_until: as for remedy.noderecord.store.NodeRecords.
    """

    def __init__(
        self,
        node: Callable[[str], Node | None],
        events_until: EventsUntil,
    ) -> None:
        self._node, self._events_until = node, events_until
        self._specs: dict[str, NodeRecordSpec] = {}
        self._pasts: dict[str, tuple[NodeRecordSpec, tuple[Past, ...]]] = {}

    def spec(self, name: str) -> NodeRecordSpec:
        node, spec = self._node(name), self._specs.get(name, NodeRecordSpec())
        if node is not None and spec.node_uid != node.metadata.uid:
            return NodeRecordSpec(node_uid=node.metadata.uid)
        return spec

    def past(self, name: str) -> tuple[Past, ...]:
        spec, known = self.spec(name), self._pasts.get(name)
        if known is None or known[0] is not spec:
            known = self._pasts[name] = (spec, memory.pasts(spec))
        return known[1]

    def close(self, job: Job) -> None:
        """Add a closed job to the record of its node."""
        name = job.spec.node_name
        spec = self.spec(name)
        if job.spec.mode in ACTING and job.spec.node_uid == spec.node_uid:
            closed = job.status.timeline.closed
            until = self._events_until(name, job.spec.when, closed)
            self._specs[name] = memory.with_job(spec, job, until)

    def judge(self, name: str, diagnosis: Diagnosis, facts: FactSet, now: datetime) -> None:
        spec = self.spec(name)
        if spec.jobs or spec.dry_runs:
            self._specs[name] = memory.judged(spec, diagnosis, facts, now)

    def add_dry_run(self, name: str, rule: str, fault_class: str, result: WouldHave) -> None:
        self._specs[name] = memory.with_result(self.spec(name), rule, fault_class, result)
