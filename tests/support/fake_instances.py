"""A cloud in memory that makes machines, with levers for what clouds do to their callers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers.instances import (
    Deletion,
    ErrorCode,
    Instance,
    InstanceError,
    InstanceOrder,
    InstanceState,
)


@dataclass(slots=True)
class FakeInstances:
    """blind       `find` and `get` of new instances miss them so many times
    lose_reply  so many answers of `create` are lost: the instance is made all the same
    failing     raised by every call while it is set
    slow_end    `delete` is in progress so many times before it is gone
    """

    name: str = "fake"
    provider: str = "local"
    operations: frozenset[MachineOperationType] = frozenset({MachineOperationType.REDEPLOY})
    state: InstanceState = InstanceState.RUNNING
    addresses: tuple[str, ...] = ("10.3.0.1",)
    blind: int = 0
    lose_reply: int = 0
    failing: InstanceError | None = None
    refuses: InstanceError | None = None
    slow_end: int = 0
    instances: dict[str, Instance] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    """Tokens, of each instance that came to be."""
    deleted: list[str] = field(default_factory=list)
    operated: list[tuple[str, str, str]] = field(default_factory=list)
    user_data: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        return []

    def owns(self, provider_id: str) -> bool:
        return provider_id.startswith("fake://")

    async def create(self, order: InstanceOrder) -> Instance:
        self._call()
        if self.refuses is not None:
            raise self.refuses
        there = self._by_token(order.token)
        if there is None:
            provider_id = f"fake:///{order.token}"
            there = Instance(
                provider_id, order.token, order.cluster, self.state, "running", self.addresses
            )
            self.instances[provider_id] = there
            self.made.append(order.token)
            self.user_data[order.token] = order.user_data
        if self.lose_reply:
            self.lose_reply -= 1
            raise InstanceError(self.name, ErrorCode.UNKNOWN, "the connection broke")
        return there

    async def get(self, provider_id: str) -> Instance | None:
        self._call()
        return self.instances.get(provider_id)

    async def find(self, cluster: str, token: str) -> Instance | None:
        self._call()
        found = self._by_token(token)
        if found is not None and self.blind:
            self.blind -= 1
            return None
        return found

    async def delete(self, provider_id: str, cluster: str) -> Deletion:
        self._call()
        found = self.instances.get(provider_id)
        if found is None:
            return Deletion.GONE
        if self.slow_end:
            self.slow_end -= 1
            self.instances[provider_id] = replace(found, state=InstanceState.ENDING)
            return Deletion.IN_PROGRESS
        del self.instances[provider_id]
        self.deleted.append(provider_id)
        return Deletion.GONE

    async def list(self, cluster: str) -> Sequence[Instance]:
        self._call()
        return list(self.instances.values())

    async def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        self._call()
        self.operated.append((provider_id, operation, request))

    async def close(self) -> None:
        return

    def _by_token(self, token: str) -> Instance | None:
        return next((one for one in self.instances.values() if one.token == token), None)

    def _call(self) -> None:
        self.calls += 1
        if self.failing is not None:
            raise self.failing
