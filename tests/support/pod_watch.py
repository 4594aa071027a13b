"""What business notices of a fault: how many pods serve, where, and for how long too few do.

A thread looks several times a second and keeps what it saw. A pod on a host that hangs or is off
serves nobody, whatever the API server still says of it. Whether two pods of one name ever ran at
the same time is seen in the processes of all hosts, which are processes of this machine too; one of
a hung host counts, for it would go on if it were thawed.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.node_cluster import NodeCluster

PERIOD = 0.2


@dataclass(frozen=True, slots=True)
class Sample:
    """at     seconds since the epoch
    ready   ready pods by app and node
    back    nodes that are Ready under the boot that their host runs, and schedulable
    running  for each pod of a StatefulSet, how many of it have a process on any host
    """

    at: float
    ready: Mapping[str, Mapping[str, int]]
    back: frozenset[str]
    running: Mapping[str, int]

    def serving(self, app: str, but: str) -> int:
        """Ready pods of `app` on other nodes than `but`."""
        return sum(n for node, n in self.ready.get(app, {}).items() if node != but)


@dataclass
class PodWatch:
    """Between `with` and its end. `stateful` are names of StatefulSets whose pods are unique."""

    cluster: NodeCluster
    stateful: tuple[str, ...] = ()
    samples: list[Sample] = field(default_factory=list)

    def __enter__(self) -> "PodWatch":
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Takes a last look, so that what the body has waited for is among the samples."""
        self._stop.set()
        self._thread.join(30)
        self.samples.append(self._look())

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            self.samples.append(self._look())

    def _look(self) -> Sample:
        ready: dict[str, dict[str, int]] = {}
        for pod in self.cluster.pods():
            conditions = pod["status"].get("conditions", [])
            if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                nodes = ready.setdefault(pod["metadata"]["labels"]["app"], {})
                node = pod["spec"]["nodeName"]
                nodes[node] = nodes.get(node, 0) + 1
        back = self.cluster.in_service()
        return Sample(time.time(), ready, back, self._running())

    def _running(self) -> dict[str, int]:
        """Containers by the pod's name: the last word of their first process."""
        seen: dict[str, int] = {}
        for file in Path("/proc").glob("[0-9]*/cmdline") if self.stateful else ():
            try:
                words = file.read_text().split("\0")
            except OSError:
                continue
            # The shell of a container, not what it started: that has other words.
            if words[0] == "sh" and len(words) > 3 and words[3].startswith(self.stateful):
                seen[words[3]] = seen.get(words[3], 0) + 1
        return seen

    # ---- what it was like

    @property
    def most_running(self) -> dict[str, int]:
        """Of each pod of a StatefulSet, how many ever ran at the same time."""
        most: dict[str, int] = {}
        for sample in self.samples:
            for name, count in sample.running.items():
                most[name] = max(most.get(name, 0), count)
        return most

    def serving(self, app: str, but: str) -> int:
        """As `Sample.serving`, at the last look."""
        return self.samples[-1].serving(app, but) if self.samples else 0

    def elsewhere_after(self, fault: float, app: str, replicas: int, node: str) -> float:
        """Seconds from `fault` until all replicas served on other nodes than `node`."""
        return self._first(fault, lambda s: s.serving(app, node) >= replicas)

    def back_after(self, fault: float, node: str) -> float:
        """Seconds from `fault` until `node` was back in service after it had been out of it."""
        out = self._first(fault, lambda s: node not in s.back)
        return self._first(fault, lambda s: s.at > fault + out and node in s.back)

    def unavailable(self, fault: float, app: str, replicas: int, node: str, until: float) -> float:
        """Pod-seconds that `app` lacked from `fault` to `until`; pods on the dead `node`, if there
        is one, count as lost until it is back in service.
        """
        lost, last, out = 0.0, fault, False
        for sample in self.samples:
            if sample.at < fault or last > until:
                continue
            out = out or node not in sample.back
            gone = "" if out and node in sample.back else node
            lost += max(0, replicas - sample.serving(app, gone)) * (sample.at - last)
            last = sample.at
        return lost

    def _first(self, fault: float, true: Any) -> float:
        found = next((s.at - fault for s in self.samples if s.at >= fault and true(s)), None)
        assert found is not None, "the watch never saw it"
        return found


def instant(text: str) -> float:
    """Seconds since the epoch of a time in a status."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC).timestamp()
