"""Counts and times the calls of a provider, whatever its port."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from prometheus_client import Counter, Histogram

from kubenode.runtime.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")


class CallMeter:
    """Wraps the calls of one provider.

    requests: counter with labels provider, operation and result.
    seconds: histogram with labels provider and operation.
    ok: the result of a call that succeeds.
    result_of: returns the result for an error.
    """

    def __init__(
        self,
        provider: str,
        clock: Clock,
        requests: Counter,
        seconds: Histogram,
        *,
        ok: str,
        result_of: Callable[[BaseException], str],
    ) -> None:
        self._provider, self._clock = provider, clock
        self._requests, self._seconds = requests, seconds
        self._ok, self._result_of = ok, result_of

    def wrap(
        self, operation: str, call: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return the call, counted and timed whether it returns, raises or is cancelled."""

        async def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            begun, result = self._clock.monotonic(), self._ok
            try:
                return await call(*args, **kwargs)
            except BaseException as error:
                result = self._result_of(error)
                raise
            finally:
                self._requests.labels(self._provider, operation, result).inc()
                taken = self._clock.monotonic() - begun
                self._seconds.labels(self._provider, operation).observe(taken)

        return measured
