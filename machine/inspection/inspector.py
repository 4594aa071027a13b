"""Inspections on a cluster: I/O without decisions."""

from collections.abc import Sequence

import msgspec

from kubenode.api.v1alpha1.machinecomponentset import (
    InspectionCheck,
    InspectionType,
    JobCheck,
    PromQLCheck,
)
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, KubeError, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from machine.inspection.conditions import conditions, require_joined_nodes
from machine.inspection.jobs import KEY, BadJob, InspectionJob, ended, job_name, job_of
from machine.inspection.port import Inspected, InspectionAnswer, InspectionResult, together
from machine.inspection.prometheus import Prometheus, PrometheusUnanswered
from machine.inspection.promql import judged, question
from machine.names import COMPONENTS

JOBS = paths.resource("/apis/batch/v1", "jobs", namespace=COMPONENTS)
_job = structs(InspectionJob)


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


_config_map = structs(_ConfigMap)


class ClusterInspector:
    """Inspector that reads Nodes, queries Prometheus and runs Jobs."""

    def __init__(
        self,
        kube: Kube,
        fence: Fence,
        clock: Clock,
        nodes: Informer[Node],
        prometheus: Prometheus,
    ) -> None:
        self._kube, self._fence, self._clock = kube, fence, clock
        self._nodes, self._prometheus = nodes, prometheus

    async def inspect(self, checks: Sequence[InspectionCheck], what: Inspected) -> InspectionAnswer:
        answers = [(check, await self._inspect_check(check, what)) for check in checks]
        return together(
            [(c.name, require_joined_nodes(answer, c, what.unjoined)) for c, answer in answers]
        )

    async def _inspect_check(self, check: InspectionCheck, what: Inspected) -> InspectionAnswer:
        match check.type:
            case InspectionType.NODE_CONDITION:
                assert check.node_condition is not None
                if not self._nodes.fresh():
                    return InspectionAnswer(
                        InspectionResult.INCONCLUSIVE, "the cache of nodes is not current"
                    )
                nodes = {name: self._nodes.get(name) for name in what.nodes}
                return conditions(check.node_condition, what.nodes, nodes)
            case InspectionType.PROMQL:
                assert check.prom_ql is not None
                return await self._run_query(check.prom_ql, what)
            case InspectionType.JOB:
                assert check.job is not None
                return await self._run(check.name, check.job, what)

    async def _run_query(self, check: PromQLCheck, what: Inspected) -> InspectionAnswer:
        query = question(check.query, what.nodes)
        if isinstance(query, InspectionAnswer):
            return query
        try:
            return judged(check, await self._prometheus.ask(query))
        except PrometheusUnanswered as error:
            return InspectionAnswer(InspectionResult.INCONCLUSIVE, str(error))

    async def _run(self, name: str, check: JobCheck, what: Inspected) -> InspectionAnswer:
        try:
            job = await self._job(name, check, what)
        except (KubeError, BadJob) as error:
            return InspectionAnswer(InspectionResult.INCONCLUSIVE, str(error))
        return ended(job, check.timeout, self._clock.now())

    async def _job(self, name: str, check: JobCheck, what: Inspected) -> InspectionJob:
        """Return the Job of this inspection, created if there is none. Raises KubeError and
        BadJob.
        """
        path = f"{JOBS}/{job_name(name, what)}"
        try:
            return await self._kube.get(path, _job)
        except NotFound:
            pass
        body = job_of(await self._text(check.config_map_ref), name, what, check.timeout)
        self._fence.check()
        try:
            return await self._kube.create(JOBS, body, _job)
        except AlreadyExists:
            return await self._kube.get(path, _job)

    async def _text(self, ref: str) -> str:
        path = paths.resource("/api/v1", "configmaps", namespace=COMPONENTS, name=ref)
        try:
            config_map = await self._kube.get(path, _config_map)
        except NotFound:
            raise BadJob(f"there is no ConfigMap {COMPONENTS}/{ref}") from None
        if KEY not in config_map.data:
            raise BadJob(f"ConfigMap {COMPONENTS}/{ref} has no key {KEY}")
        return config_map.data[KEY]
