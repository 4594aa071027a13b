"""Metrics of calls to providers of instances: count and duration, by a wrapper of each provider."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers.instances import (
    Deletion,
    ErrorCode,
    Instance,
    InstanceError,
    InstanceOrder,
    Instances,
)
from kubenode.providers.request_metrics import BUCKETS
from kubenode.runtime.clock import Clock

T = TypeVar("T")

OPERATIONS = ("create", "get", "find", "delete", "list", "operate")
OTHER = "CANCELLED"
"""Label for a call that we cancelled, or that an error of our own ended."""


class InstanceMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "kubenode_instance_requests",
            "What was asked of the providers that make machines, by its code",
            ["provider", "operation", "code"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_instance_request_seconds",
            "Time until a provider that makes machines answered",
            ["provider", "operation"],
            buckets=BUCKETS,
            registry=registry,
        )

    def announce(self, provider: str) -> None:
        """Create every series of the provider with the value zero."""
        for operation in OPERATIONS:
            for code in (OTHER, *ErrorCode):
                self.requests.labels(provider, operation, code)
            self.seconds.labels(provider, operation)


class MeteredInstances:
    """An Instances that counts and times calls of `inner`. Two of one provider share series."""

    def __init__(self, inner: Instances, metrics: InstanceMetrics, clock: Clock) -> None:
        self.name, self.provider, self.operations = inner.name, inner.provider, inner.operations
        self._inner, self._metrics, self._clock = inner, metrics, clock
        metrics.announce(inner.provider)

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        return self._inner.validate(config)

    def owns(self, provider_id: str) -> bool:
        return self._inner.owns(provider_id)

    async def create(self, order: InstanceOrder) -> Instance:
        return await self._measured("create", self._inner.create(order))

    async def get(self, provider_id: str) -> Instance | None:
        return await self._measured("get", self._inner.get(provider_id))

    async def find(self, cluster: str, token: str) -> Instance | None:
        return await self._measured("find", self._inner.find(cluster, token))

    async def delete(self, provider_id: str, cluster: str) -> Deletion:
        return await self._measured("delete", self._inner.delete(provider_id, cluster))

    async def list(self, cluster: str) -> Sequence[Instance]:
        return await self._measured("list", self._inner.list(cluster))

    async def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        call = self._inner.operate(provider_id, cluster, operation, request)
        await self._measured("operate", call)

    async def close(self) -> None:
        await self._inner.close()

    async def _measured(self, operation: str, call: Awaitable[T]) -> T:
        begun, code = self._clock.monotonic(), OTHER
        try:
            answer = await call
            code = ErrorCode.OK
            return answer
        except InstanceError as error:
            code = error.code
            raise
        finally:
            self._metrics.requests.labels(self.provider, operation, code).inc()
            taken = self._clock.monotonic() - begun
            self._metrics.seconds.labels(self.provider, operation).observe(taken)
