"""How often systemd had to start a unit again: counted as it tells, kept for a while. Pure.

NRestarts counts automatic restarts alone, and begins anew when a person starts the unit: what is
restarted on purpose is not counted. Limits: node-problem-detector, systemd-monitor-counter.json
(5 in 20 minutes).
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
"""Of the limit: so few within the time and the fault is over."""


def condition(unit: str) -> str:
    return OWN_CONDITION.get(unit, OTHERS)


def judge(kind: str, flapping: dict[str, int], within: float) -> Finding:
    """`flapping`: units of this condition that restart too often, and how often."""
    if flapping:
        summary = ", ".join(f"{unit} {count} times" for unit, count in sorted(flapping.items()))
        return Finding(True, kind, f"restarted within {within / 60:g} minutes: {summary}")
    return Finding(False, f"No{kind}", _WELL[kind])


class Restarts:
    """Of one unit. Times are monotonic seconds."""

    def __init__(self, limit: int, within: float) -> None:
        self._limit, self._within = limit, within
        self._known: int | None = None
        self._at: deque[float] = deque(maxlen=limit)
        self._sure_at = 0.0
        self.flapping = False

    def record(self, restarts: int, now: float) -> None:
        """NRestarts as it is now. What happened before the first time has no known moment: where
        that may be too much, nothing is known until all of it is long ago.
        """
        if self._known is None and restarts >= self._limit:
            self._sure_at = now + self._within
        known = restarts if self._known is None else self._known
        more = restarts - known if restarts >= known else restarts
        self._known = restarts
        self._at.extend([now] * min(more, self._limit))

    def count_recent(self, now: float) -> int:
        """How many there were lately; sets `flapping`."""
        while self._at and self._at[0] <= now - self._within:
            self._at.popleft()
        count = len(self._at)
        self.flapping = count > self._limit * CLEAR_PART if self.flapping else count >= self._limit
        return count

    def sure(self, now: float) -> bool:
        """Whether a small count means that the unit is well."""
        return self.flapping or now >= self._sure_at

    def next(self, now: float) -> float | None:
        """When time alone changes what is known; None when it does not."""
        ends = [at + self._within for at in self._at] + [self._sure_at]
        return min((end for end in ends if end > now), default=None)
