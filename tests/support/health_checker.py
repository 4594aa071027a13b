"""A health checker as node-problem-detector's: it looks at a unit and reports a Node condition.

The condition has the form that a running node-problem-detector writes (npd_conditions.json of the
shared data): all six fields, whole seconds, one strategic merge patch of the Node's status. A
heartbeat is sent with every look, and the condition goes back to False when the unit runs again.
"""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from support.control_plane import ControlPlane

CONDITION = "ContainerRuntimeUnhealthy"
REASONS = {"True": "ContainerdUnhealthy", "False": "ContainerRuntimeIsHealthy"}
MESSAGES = {
    "True": "containerd on the node is not functioning properly",
    "False": "Container runtime on the node is functioning properly",
}


class HealthChecker:
    """Looks every `period` seconds, between `with` and its end. `healthy` asks the host."""

    def __init__(
        self, cp: ControlPlane, node: str, healthy: Callable[[], bool], period: float = 1.0
    ) -> None:
        self._cp, self._node, self._healthy, self._period = cp, node, healthy, period
        self._stop = threading.Event()
        self._status, self._since = "", ""
        self._thread = threading.Thread(target=self._run, name="health checker", daemon=True)

    def __enter__(self) -> "HealthChecker":
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(self._period):
            self.look()

    def look(self) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        status = "False" if self._healthy() else "True"
        if status != self._status:
            self._status, self._since = status, now
        self._report(
            {
                "type": CONDITION,
                "status": status,
                "lastHeartbeatTime": now,
                "lastTransitionTime": self._since,
                "reason": REASONS[status],
                "message": MESSAGES[status],
            }
        )

    def _report(self, condition: dict[str, Any]) -> None:
        body = json.dumps({"status": {"conditions": [condition]}})
        arguments = ["patch", "node", self._node, "--subresource=status", "--type=strategic"]
        self._cp.kubectl(*arguments, "-p", body, check=False)
