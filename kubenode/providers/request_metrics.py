"""Metrics of calls to providers of machines: count and duration, by a wrapper of each provider."""

from collections.abc import Awaitable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import Power, Provider, ProviderMachine
from kubenode.runtime.clock import Clock

T = TypeVar("T")

OPERATIONS = ("power", "off", "on", "reset", "replace", "approve")
RESULTS: dict[type[ProviderError], str] = {
    Busy: "busy",
    Denied: "denied",
    NoSuchMachine: "no_such_machine",
    Refused: "refused",
    Throttled: "throttled",
    Unreachable: "unreachable",
    Unsupported: "unsupported",
}
OK = "ok"
OTHER = "error"
"""Label for a call that we cancelled, or that an error of our own ended."""
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0)


class ProviderMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "kubenode_provider_requests",
            "Operations asked of the providers of machines, by how they ended",
            ["provider", "operation", "result"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_provider_request_seconds",
            "Time until a provider answered",
            ["provider", "operation"],
            buckets=BUCKETS,
            registry=registry,
        )

    def announce(self, provider: str) -> None:
        """Create every series of the provider with the value zero."""
        for operation in OPERATIONS:
            for result in (OK, OTHER, *RESULTS.values()):
                self.requests.labels(provider, operation, result)
            self.seconds.labels(provider, operation)


class Metered:
    """A Provider that counts and times calls of `inner`. Two of one provider share series."""

    def __init__(self, inner: Provider, metrics: ProviderMetrics, clock: Clock) -> None:
        self.name = inner.name
        self.can = inner.can
        self._inner = inner
        self._metrics = metrics
        self._clock = clock
        metrics.announce(inner.name)

    def owns(self, machine: ProviderMachine) -> bool:
        return self._inner.owns(machine)

    async def power(self, machine: ProviderMachine) -> Power:
        return await self._measured("power", self._inner.power(machine))

    async def off(self, machine: ProviderMachine, request: str) -> None:
        await self._measured("off", self._inner.off(machine, request))

    async def on(self, machine: ProviderMachine, request: str) -> None:
        await self._measured("on", self._inner.on(machine, request))

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        await self._measured("reset", self._inner.reset(machine, request))

    async def replace(self, machine: ProviderMachine, request: str) -> None:
        await self._measured("replace", self._inner.replace(machine, request))

    async def approve(self, machine: ProviderMachine, event: str) -> None:
        await self._measured("approve", self._inner.approve(machine, event))

    async def close(self) -> None:
        await self._inner.close()

    async def _measured(self, operation: str, call: Awaitable[T]) -> T:
        begun, result = self._clock.monotonic(), OTHER
        try:
            answer = await call
            result = OK
            return answer
        except ProviderError as error:
            result = RESULTS.get(type(error), OTHER)
            raise
        finally:
            self._metrics.requests.labels(self.name, operation, result).inc()
            taken = self._clock.monotonic() - begun
            self._metrics.seconds.labels(self.name, operation).observe(taken)
