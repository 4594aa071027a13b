"""Recent requests to Kube Defender and its answers, for `kubenode defender simulate`.

The repeated asks of a refused holder are one request, from the first ask until its permit, with the
number of refusals by reason. Requests are kept in memory up to a bound: the oldest are dropped
first, and `dropped` counts them.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import nsmallest

from pydantic import StrictInt

from kubenode.api.base import Model
from kubenode.api.meta import Time
from kubenode.api.v1alpha1 import Ask, Reason, Verdict

MOST = 10_000
"""Greatest number of requests to keep, about 1.5 KB each."""
RETENTION = timedelta(hours=24)
"""Time for which a request is kept after its last ask."""
PAGE = 1000
"""Greatest number of requests in one response."""
Key = tuple[str, str, str, str]
"""UID of the holder, node, class and operation."""


@dataclass(slots=True)
class PermitRequest:
    """One request.

    ask: the last ask.
    refusals: number of refused asks, by reason.
    granted: when the permit was granted, None if it was not yet.
    """

    ask: Ask
    first: datetime
    last: datetime
    count: int
    verdict: Verdict
    refusals: Counter[Reason] = field(default_factory=Counter)
    granted: datetime | None = None


class PastRequest(Model):
    """One request as it is shown."""

    ask: Ask
    first_asked: Time
    last_asked: Time
    count: StrictInt
    """How often it was asked."""
    held: dict[Reason, StrictInt]
    """How many of the asks were refused, by reason."""
    granted_at: Time | None = None
    verdict: Verdict
    """The last answer."""


class RequestsPage(Model):
    """Requests in order of their last ask."""

    began: Time
    """Nothing before is known: Kube Defender started then."""
    dropped: StrictInt
    """Requests that were forgotten because there were too many."""
    requests: list[PastRequest]


class Requests:
    """Recorder of requests."""

    def __init__(self, began: datetime, most: int = MOST, retention: timedelta = RETENTION) -> None:
        self.began, self.dropped = began, 0
        self._most, self._retention = most, retention
        self._going: OrderedDict[Key, PermitRequest] = OrderedDict()
        """Requests without a later one of the same key, the least recently asked first."""
        self._closed: OrderedDict[tuple[Key, datetime], PermitRequest] = OrderedDict()

    def answered(self, ask: Ask, verdict: Verdict, now: datetime) -> None:
        """Record an answer. Dry runs are not recorded."""
        if ask.dry_run:
            return
        key = (ask.holder.uid, ask.node, ask.class_.value, ask.operation.value)
        request = self._going.get(key)
        if request is not None and _is_closed(request, verdict):
            self._closed[key, request.first] = self._going.pop(key)
            request = None
        if request is None:
            request = self._going[key] = PermitRequest(ask, now, now, 0, verdict)
        self._going.move_to_end(key)
        request.ask, request.last, request.verdict = ask, now, verdict
        request.count += 1
        if not verdict.allowed:
            request.refusals[verdict.reason] += 1
        elif request.granted is None:
            request.granted = now
        self.prune(now)

    def prune(self, now: datetime) -> None:
        """Drop requests that are too old, and the oldest of too many."""
        while self._closed and next(iter(self._closed.values())).last < now - self._retention:
            self._closed.popitem(last=False)
        while self._going and next(iter(self._going.values())).last < now - self._retention:
            self._going.popitem(last=False)
        while len(self) > self._most:
            self.dropped += 1
            if self._closed:
                self._closed.popitem(last=False)
            else:
                self._going.popitem(last=False)

    def __len__(self) -> int:
        return len(self._closed) + len(self._going)

    def page(self, since: datetime | None = None, limit: int = PAGE) -> RequestsPage:
        """Return the first `limit` requests asked since a time: the body of `GET /v1/requests`.

        For the next page pass the last `lastAsked`. A request that is on both pages is the same
        one.
        """
        stored = [*self._closed.values(), *self._going.values()]
        selected = [r for r in stored if since is None or r.last >= since]
        selected = nsmallest(min(limit, PAGE), selected, key=lambda r: (r.last, r.ask.node))
        shown = [_shown(request) for request in selected]
        return RequestsPage(began=self.began, dropped=self.dropped, requests=shown)


def _shown(request: PermitRequest) -> PastRequest:
    return PastRequest(
        ask=request.ask,
        first_asked=request.first,
        last_asked=request.last,
        count=request.count,
        held=dict(request.refusals),
        granted_at=request.granted,
        verdict=request.verdict,
    )


def _is_closed(request: PermitRequest, verdict: Verdict) -> bool:
    """Return whether the request had its permit, and the answer is about another one."""
    return request.granted is not None and verdict.permit != request.verdict.permit
