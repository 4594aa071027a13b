"""Lanes whose first request may be allowed by now, because a slot was freed or time has passed."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import heappop, heappush

from defender.decision.queue.entry import LaneKey
from defender.decision.queue.line import QueueLine
from kubenode.api.v1alpha1 import Reason


class QueueNews:
    """Lanes with news.

    on_news: called when there is news, while somebody listens.
    """

    def __init__(self, line: QueueLine) -> None:
        self.listening = False
        self.on_news: Callable[[], None] = lambda: None
        self._line = line
        self._lanes: set[LaneKey] = set()
        self._retry: list[tuple[datetime, LaneKey]] = []

    def __bool__(self) -> bool:
        return self.listening and bool(self._lanes)

    def __iter__(self) -> Iterator[LaneKey]:
        return iter(list(self._lanes))

    def of_all(self) -> None:
        self.of_lanes(self._line.lanes)

    def of_scope(self, scope: str) -> None:
        self.of_lanes(self._line.lanes_of(scope))

    def of_reasons(self, *reasons: Reason) -> None:
        self.of_lanes([lane for lane in self._line.lanes if lane[0] in reasons])

    def of_lanes(self, lanes: Iterable[LaneKey]) -> None:
        self._lanes.update(lanes)
        if self:
            self.on_news()

    def not_before(self, lane_key: LaneKey, at: datetime) -> None:
        """Record that the first request of the lane is not allowed before `at`."""
        self._lanes.discard(lane_key)
        self.schedule_retry(lane_key, at)

    def schedule_retry(self, lane_key: LaneKey, at: datetime) -> None:
        """Record that the lane may have news at that time."""
        lane = self._line.lane(lane_key)
        if lane is not None:
            lane.retry_at = at
            heappush(self._retry, (at, lane_key))

    def advance(self, now: datetime) -> None:
        while self._retry and self._retry[0][0] <= now:
            lane_key = heappop(self._retry)[1]
            lane = self._line.lane(lane_key)
            if lane is not None and lane.retry_at is not None and lane.retry_at <= now:
                self.of_lanes([lane_key])

    def next_at(self) -> datetime | None:
        """Return when time alone may bring news, None for never."""
        return self._retry[0][0] if self._retry else None
