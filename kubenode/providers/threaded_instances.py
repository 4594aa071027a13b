"""Instances over a blocking SDK, run in threads as `kubenode.providers.threads` describes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers.class_configs import config_problems
from kubenode.providers.errors import ProviderError
from kubenode.providers.instance_errors import coded
from kubenode.providers.instances import Deletion, ErrorCode, Instance, InstanceError, InstanceOrder
from kubenode.providers.threads import ThreadedCalls

T = TypeVar("T")

THREADS = 8
WITHIN = timedelta(seconds=120)
"""Limit of one call, long enough for a list of many pages."""


class BlockingInstances(Protocol):
    """An Instances whose methods block, each for at most the SDK's time limits times its requests.

    `explain` translates exceptions other than ProviderErrors. A method that changes something calls
    `kubenode.providers.threads.still_wanted` right before the change.
    """

    provider: str
    operations: frozenset[MachineOperationType]

    def owns(self, provider_id: str) -> bool: ...

    def create(self, order: InstanceOrder) -> Instance: ...

    def get(self, provider_id: str) -> Instance | None: ...

    def find(self, cluster: str, token: str) -> Instance | None: ...

    def delete(self, provider_id: str, cluster: str) -> Deletion: ...

    def list(self, cluster: str) -> Sequence[Instance]: ...

    def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None: ...

    def explain(self, error: Exception) -> ProviderError | None:
        """Translate an exception of the SDK; None if it is unknown."""
        ...

    def close(self) -> None: ...


class ThreadedInstances:
    """An Instances over a blocking one.

    name: of its entry in the providers file
    within: limit of a whole call, longer than the SDK's own time limits
    """

    def __init__(
        self, inner: BlockingInstances, name: str = "", within: timedelta = WITHIN
    ) -> None:
        self.name = name or inner.provider
        self.provider = inner.provider
        self.operations = inner.operations
        self._inner = inner
        self._calls = ThreadedCalls(inner.provider, inner.explain, within, THREADS)

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        return config_problems(self.provider, config)

    def owns(self, provider_id: str) -> bool:
        return self._inner.owns(provider_id)

    async def create(self, order: InstanceOrder) -> Instance:
        if wrong := self.validate(order.config):
            raise InstanceError(
                self.name, ErrorCode.INVALID_ARGUMENT, f"config: {'; '.join(wrong)}"
            )
        return await self._run(lambda: self._inner.create(order), changes=True)

    async def get(self, provider_id: str) -> Instance | None:
        self._owned(provider_id)
        return await self._run(lambda: self._inner.get(provider_id))

    async def find(self, cluster: str, token: str) -> Instance | None:
        return await self._run(lambda: self._inner.find(cluster, token))

    async def delete(self, provider_id: str, cluster: str) -> Deletion:
        self._owned(provider_id)
        return await self._run(lambda: self._inner.delete(provider_id, cluster), changes=True)

    async def list(self, cluster: str) -> Sequence[Instance]:
        return await self._run(lambda: self._inner.list(cluster))

    async def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        self._owned(provider_id)
        if operation not in self.operations:
            raise InstanceError(
                self.name,
                ErrorCode.UNIMPLEMENTED,
                f"{self.provider} has no {operation} of an instance",
            )
        await self._run(
            lambda: self._inner.operate(provider_id, cluster, operation, request), changes=True
        )

    async def close(self) -> None:
        await self._calls.close()
        await asyncio.to_thread(self._inner.close)

    def _owned(self, provider_id: str) -> None:
        if not self._inner.owns(provider_id):
            raise InstanceError(
                self.name,
                ErrorCode.INVALID_ARGUMENT,
                f"providerID {provider_id[:100]!r} is none of this provider's place and form",
            )

    async def _run(self, work: Callable[[], T], *, changes: bool = False) -> T:
        try:
            return await self._calls.run(work)
        except ProviderError as error:
            raise coded(error, self.name, changes=changes) from error
