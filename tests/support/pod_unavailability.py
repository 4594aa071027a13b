"""Pod-seconds that workloads lack while nodes change, one node at a time."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class PodUnavailability:
    """Samples of ready pods.

    replicas  wanted ready pods by workload
    lost      pod-seconds by the node that changed last
    fewest    least ready pods by workload
    """

    replicas: Mapping[str, int]
    lost: dict[str, float] = field(default_factory=dict)
    fewest: dict[str, int] = field(default_factory=dict)
    _node: str = ""
    _lack: int = 0
    _at: float | None = None

    def sample(self, ready: Mapping[str, int], node: str, now: float) -> None:
        """Add a sample. node: the node that changes, "" for none; now: seconds."""
        if self._at is not None and self._node:
            before = self.lost.get(self._node, 0.0)
            self.lost[self._node] = before + self._lack * (now - self._at)
        self._node = node or self._node
        self._lack = sum(max(0, wanted - ready[app]) for app, wanted in self.replicas.items())
        for app, count in ready.items():
            self.fewest[app] = min(count, self.fewest.get(app, count))
        self._at = now
