"""Chooses who can replace the machine of a job's node: the first method in the step's `via` that
applies.
"""

from dataclasses import replace
from functools import partial

from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.providers.registry import Providers
from kubenode.runtime.disruption.guard import DisruptionGuard
from kubenode.runtime.disruption.request import ActRefused
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, KubeError
from kubenode.runtime.kube.objects import Node
from remedy.job.model import Job, JobActResult, JobObservation, NodeObservation, StepAct
from remedy.power.claims import ReplacementClaims
from remedy.power.clusterapi import ClusterApi
from remedy.power.instancegroup import InstanceGroup
from remedy.power.karpenter import Karpenter
from remedy.power.leave import (
    NodeReader,
    act_request,
    is_written,
    live_target,
    request_of,
    to_refused_result,
)
from remedy.power.machines import OwnMachine
from remedy.power.methods import (
    BootOf,
    NodeCache,
    ReplacementMethod,
    ReplacementRequest,
    ReplacementTarget,
    outcome_of,
    to_failed_result,
)
from remedy.power.observation import ReplacementObservation, RequestOutcome

PATH, TARGET, GROUP, NEWEST = "path", "target", "group", "newest"
"""Keys of the step's output: method and target of the request, for when the Node is gone."""


class Replacing:
    """Replaces machines for jobs.

    guard: checks a request before a machine is given up
    live: reads a job's Node live
    """

    def __init__(
        self,
        kube: Kube,
        nodes: NodeCache,
        providers: Providers,
        boot_of: BootOf,
        guard: DisruptionGuard,
        live: NodeReader,
    ) -> None:
        self._nodes, self._guard, self._live = nodes, guard, live
        self._claims = ReplacementClaims(kube)
        methods: tuple[ReplacementMethod, ...] = (
            OwnMachine(kube, nodes),
            ClusterApi(kube, nodes),
            Karpenter(kube, nodes),
            InstanceGroup(providers, nodes, boot_of),
        )
        self._methods = {method.name: method for method in methods}

    async def observe(self, job: Job, node: NodeObservation | None) -> ReplacementObservation:
        request = _read_request(job)
        try:
            if request is not None:
                return await self._claimed(request, await self._method_of(job).far(request), node)
            return await self._first(job)
        except KubeError as error:
            outcome, after = outcome_of(error)
            return ReplacementObservation(outcome=outcome, why=str(error), after=after)

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        request = _read_request(job)
        assert request is not None, "asked before it was written down"
        method = self._method_of(job)
        try:
            return await self._guard.perform(
                act_request(job, what, request.target),
                intent=partial(is_written, job, what),
                target=lambda: live_target(self._live, job),
                act=lambda: method.ask(request),
            )
        except ActRefused as refused:
            return to_refused_result(what, refused)
        except KubeError as error:
            return to_failed_result(error)

    async def _claimed(
        self, request: ReplacementRequest, far: ReplacementObservation, node: NodeObservation | None
    ) -> ReplacementObservation:
        """Return the progress; only a Node that is claimed for this request counts as its
        replacement.
        """
        if not far.gone or node is not None or not far.candidates:
            return replace(far, new="")
        new = await self._claims.claim(far.candidates, request.request)
        return replace(far, new=new, why=far.why if new else "the new node is another one's")

    def _method_of(self, job: Job) -> ReplacementMethod:
        record = job.record
        assert record is not None
        return self._methods[ReplacePath(record.output[PATH])]

    async def _first(self, job: Job) -> ReplacementObservation:
        step = job.step.replace if job.step is not None else None
        node = self._nodes.get(job.spec.node_name)
        if step is None or node is None or job.spec.node_uid not in ("", node.metadata.uid):
            return ReplacementObservation(
                outcome=RequestOutcome.GONE, why="the node is gone, or another one by now"
            )
        reasons = []
        for path in step.via:
            target = await _find(self._methods[path], node)
            if isinstance(target, ReplacementTarget):
                return ReplacementObservation(
                    path, target.target, target.group, newest=target.newest
                )
            reasons.append(f"{path}: {target}")
        return ReplacementObservation(outcome=RequestOutcome.REFUSED, why="; ".join(reasons))


async def _find(method: ReplacementMethod, node: Node) -> ReplacementTarget | str:
    try:
        return await method.find(node)
    except Forbidden as error:
        return f"may not be read: {error}"


def _read_request(job: Job) -> ReplacementRequest | None:
    record = job.record
    if record is None or record.asked_at is None or TARGET not in record.output:
        return None
    return ReplacementRequest(
        node=job.spec.node_name,
        node_uid=job.spec.node_uid,
        target=record.output[TARGET],
        group=record.output.get(GROUP, ""),
        at=record.asked_at,
        request=request_of(job),
        boot_id=record.boot_id,
        agent=job.spec.agent,
        operation=f"{job.name}.{record.request_id}",
        newest=record.output.get(NEWEST, ""),
        permit=job.status.permit.name if job.status.permit is not None else "",
    )
