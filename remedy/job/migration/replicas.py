"""Reads Deployments from the API server and raises or lowers their replicas for surge."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import KubeObjectMeta, KubeOwnerReference, Structs
from remedy.job.migration.surge_replicas import (
    MARK,
    SURGED_TO,
    SurgeDeployment,
    lowered,
    raised,
    refusal,
)


class RollingUpdate(msgspec.Struct, rename="camel"):
    max_surge: int | str = "25%"


class Strategy(msgspec.Struct, rename="camel"):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = msgspec.field(default_factory=RollingUpdate)


class ReplicasSpec(msgspec.Struct, rename="camel"):
    replicas: int = 1
    paused: bool = False
    strategy: Strategy = msgspec.field(default_factory=Strategy)


class ReplicasStatus(msgspec.Struct, rename="camel"):
    ready_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0


class Replicated(msgspec.Struct):
    """The fields that are read of a Deployment or ReplicaSet."""

    metadata: KubeObjectMeta
    spec: ReplicasSpec = msgspec.field(default_factory=ReplicasSpec)
    status: ReplicasStatus = msgspec.field(default_factory=ReplicasStatus)


class _Target(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _ScalerSpec(msgspec.Struct, rename="camel"):
    scale_target_ref: _Target = msgspec.field(default_factory=_Target)


class _Scaler(msgspec.Struct):
    metadata: KubeObjectMeta
    spec: _ScalerSpec = msgspec.field(default_factory=_ScalerSpec)


class _Scalers(msgspec.Struct):
    items: list[_Scaler] = []


_replicated: Structs[Replicated] = Structs(Replicated)
_scalers: Structs[_Scalers] = Structs(_Scalers)


def may_add(workload: Replicated) -> int:
    """Return how many pods above `replicas` the strategy allows; a percentage is rounded up, as
    Deployments do.

    0 for a value that cannot be parsed.
    """
    if workload.spec.strategy.type != "RollingUpdate":
        return 0
    most = workload.spec.strategy.rolling_update.max_surge
    if isinstance(most, int):
        return max(most, 0)
    number = most.removesuffix("%")
    if not number.isdigit():
        return 0
    return math.ceil(int(number) * workload.spec.replicas / 100)


def convert_deployment(
    workload: Replicated, job: str, scaled_by: str, own: int | None
) -> SurgeDeployment:
    """Convert a Deployment to a SurgeDeployment.

    scaled_by: HorizontalPodAutoscaler of the Deployment, "" for none
    own: replicas of the ReplicaSet whose pods shall move; None: not read
    """
    marks = {
        key: int(value)
        for key, value in workload.metadata.annotations.items()
        if key.startswith(MARK) and value.isdigit()
    }
    set_to = workload.metadata.annotations.get(SURGED_TO, "")
    spec, status = workload.spec, workload.status
    return SurgeDeployment(
        replicas=spec.replicas,
        ready=status.ready_replicas,
        may_add=may_add(workload),
        settled=status.observed_generation >= workload.metadata.generation
        and (own is None or own == spec.replicas),
        mine=marks.get(MARK + job, 0),
        added=sum(marks.values()),
        set_to=int(set_to) if set_to.isdigit() else None,
        paused=spec.paused,
        scaled_by=scaled_by,
    )


class Replicas:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def deployment_of(self, namespace: str, replica_set: str) -> tuple[str, Replicated] | str:
        """Return the name of the Deployment that owns a ReplicaSet, and the ReplicaSet; else why
        there is none.
        """
        try:
            workload = await self._get("replicasets", namespace, replica_set)
        except NotFound:
            return "its ReplicaSet is gone"
        owner = next((o for o in workload.metadata.owner_references if o.controller), None)
        if not _is_deployment(owner):
            return "its ReplicaSet belongs to no Deployment"
        assert owner is not None
        return owner.name, workload

    async def controller(
        self, namespace: str, deployment: str, job: str, own: int | None = None
    ) -> SurgeDeployment | None:
        """Return the Deployment's surge state; None if the Deployment is gone."""
        try:
            workload = await self._get("deployments", namespace, deployment)
        except NotFound:
            return None
        return convert_deployment(workload, job, await self._scaler(namespace, deployment), own)

    async def _scaler(self, namespace: str, deployment: str) -> str:
        path = paths.horizontal_pod_autoscalers(namespace)
        autoscalers = await self._kube.get(path, _scalers, {"resourceVersion": "0"})
        return next(
            (
                s.metadata.name
                for s in autoscalers.items
                if (s.spec.scale_target_ref.kind, s.spec.scale_target_ref.name)
                == ("Deployment", deployment)
            ),
            "",
        )

    async def raise_by(self, key: str, job: str, count: int) -> str:
        """Raise the replicas by `count` with the job's mark, unless the mark exists. Return why
        not, "" if raised.
        """
        namespace, _, name = key.partition("/")
        try:
            live = await self._get("deployments", namespace, name)
        except NotFound:
            return "it is gone"
        state = convert_deployment(live, job, await self._scaler(namespace, name), None)
        if state.mine:
            return ""
        if why := refusal(state, claims=False):
            return why
        to = raised(state, count)
        await self._patch(live, {MARK + job: str(count), SURGED_TO: str(to)}, to)
        return ""

    async def lower(self, key: str, job: str) -> str:
        """Remove the job's added replicas and its mark, if it has one. Always returns ""."""
        namespace, _, name = key.partition("/")
        try:
            live = await self._get("deployments", namespace, name)
        except NotFound:
            return ""
        state = convert_deployment(live, job, "", None)
        if not state.mine:
            return ""
        to = lowered(state)
        annotations: dict[str, str | None] = {MARK + job: None}
        if state.added == state.mine:
            annotations[SURGED_TO] = None
        elif to is not None:
            annotations[SURGED_TO] = str(to)
        await self._patch(live, annotations, to)
        return ""

    async def _get(self, plural: str, namespace: str, name: str) -> Replicated:
        return await self._kube.get(paths.apps(plural, namespace, name), _replicated)

    async def _patch(
        self, live: Replicated, annotations: Mapping[str, str | None], to: int | None
    ) -> None:
        meta = live.metadata
        body: dict[str, Any] = {
            "metadata": {"annotations": dict(annotations), "resourceVersion": meta.resource_version}
        }
        if to is not None:
            body["spec"] = {"replicas": to}
        await self._kube.patch(paths.apps("deployments", meta.namespace, meta.name), body)


def _is_deployment(owner: KubeOwnerReference | None) -> bool:
    return owner is not None and owner.kind == "Deployment" and owner.api_version == "apps/v1"
