"""Counts the automatic restarts of units that systemd reports. Pure.

NRestarts counts automatic restarts only, and starts at 0 after a person starts the unit, so
intended restarts do not count. Limits: node-problem-detector, systemd-monitor-counter.json (5 in 20
minutes).
"""

from collections import deque

from agent.detectors.checks import Finding

OWN_CONDITION = {
    "kubelet.service": "FrequentKubeletRestart",
    "containerd.service": "FrequentContainerdRestart",
    "docker.service": "FrequentDockerRestart",
}
OTHERS = "FrequentUnitRestart"
_WELL = {
    "FrequentKubeletRestart": "kubelet is functioning properly",
    "FrequentContainerdRestart": "containerd is functioning properly",
    "FrequentDockerRestart": "docker is functioning properly",
    OTHERS: "no watched unit restarts often",
}
CLEAR_PART = 0.5
"""Share of the limit: the fault is over if there are at most so many restarts."""


def condition(unit: str) -> str:
    return OWN_CONDITION.get(unit, OTHERS)


def judge(kind: str, flapping: dict[str, int], within: float) -> Finding:
    """Return the finding. flapping: units of this condition with too many restarts, and their
    number.
    """
    if flapping:
        summary = ", ".join(f"{unit} {count} times" for unit, count in sorted(flapping.items()))
        return Finding(True, kind, f"restarted within {within / 60:g} minutes: {summary}")
    return Finding(False, f"No{kind}", _WELL[kind])


class Restarts:
    """Restarts of one unit. Times are monotonic seconds."""

    def __init__(self, limit: int, within: float) -> None:
        self._limit, self._within = limit, within
        self._known: int | None = None
        self._at: deque[float] = deque(maxlen=limit)
        self._sure_at = 0.0
        self.flapping = False

    def record(self, restarts: int, now: float) -> None:
        """Record the value of NRestarts.

        The times of restarts before the first value are unknown. If these may be too many, the
        unit's state is unknown until all of them are old.
        """
        if self._known is None and restarts >= self._limit:
            self._sure_at = now + self._within
        known = restarts if self._known is None else self._known
        more = restarts - known if restarts >= known else restarts
        self._known = restarts
        self._at.extend([now] * min(more, self._limit))

    def count_recent(self, now: float) -> int:
        """Return the number of recent restarts, and set `flapping`."""
        while self._at and self._at[0] <= now - self._within:
            self._at.popleft()
        count = len(self._at)
        self.flapping = count > self._limit * CLEAR_PART if self.flapping else count >= self._limit
        return count

    def sure(self, now: float) -> bool:
        """Return whether a small number means that the unit is healthy."""
        return self.flapping or now >= self._sure_at

    def next(self, now: float) -> float | None:
        """Return when time alone changes the result; None if it does not."""
        ends = [at + self._within for at in self._at] + [self._sure_at]
        return min((end for end in ends if end > now), default=None)
