"""Nodes with something that cannot be read: they are unknown, and all others continue.

Each of these counts as one unreadable object: an object that its informer cannot decode, a handler
that fails for it, facts that cannot be built for a node, and a rule evaluation that fails on its
facts. It is counted, logged once and reported in an Event, and the node is unknown until the object
changes.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.recorder import EventRecorder

log = logging.getLogger(__name__)

REASON = "NodeUnreadable"
OBJECT_REASON = "ObjectUnreadable"
REPORT_SECONDS = 2.0
"""Interval of reports."""
MOST_REMEMBERED = 1024
"""Objects of one node with failures that are remembered one by one."""


FACTS, RULES = "facts", "rules"
"""What failed, if not an object: building the facts, or evaluating the rules."""


class UnreadableNodes:
    """Failures by node and by what failed: an object such as `Event x`, FACTS or RULES."""

    def __init__(self) -> None:
        self._why: dict[str, dict[str, str]] = {}
        self.failures = 0

    def __len__(self) -> int:
        return len(self._why)

    def hides_facts(self, node: str) -> bool:
        """Report whether an input of the facts cannot be read. A failed rule evaluation does not
        count: it is repeated each time.
        """
        return any(what != RULES for what in self._why.get(node, ()))

    def failed(self, node: str, what: str, error: Exception) -> None:
        """Record that `what` of `node` cannot be read."""
        self.failures += 1
        why = self._why.setdefault(node, {})
        text = f"{what}: {type(error).__name__}: {error}"[:512]
        if why.get(what) != text:
            log.error("a node cannot be read", exc_info=error, extra={"node": node, "what": what})
        if what in why or len(why) < MOST_REMEMBERED:
            why[what] = text

    def succeeded(self, node: str, what: str) -> None:
        why = self._why.get(node)
        if why is not None and why.pop(what, None) is not None and not why:
            del self._why[node]

    def forget(self, node: str) -> None:
        self._why.pop(node, None)

    def why(self, node: str) -> str:
        """Return the first failure as a sentence; "" for a node that can be read."""
        return next(iter(self._why.get(node, {}).values()), "")

    def all(self) -> Mapping[str, str]:
        return {node: self.why(node) for node in self._why}


class UnreadableReporter:
    """A Part that emits an Event about each object that became unreadable.

    kinds: informers with the kind and apiVersion of their objects
    uid: returns the uid of a node by its name
    """

    name = "unreadable objects"

    def __init__(
        self,
        nodes: UnreadableNodes,
        kinds: Sequence[tuple[str, str, Informer[Any]]],
        uid: Callable[[str], str],
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._nodes, self._kinds, self._uid = nodes, kinds, uid
        self._recorder, self._clock = recorder, clock
        self._reported: dict[tuple[str, str], str] = {}

    async def run(self) -> None:
        """Report every LOOK_SECONDS, until cancelled."""
        while True:
            await self.report()
            await self._clock.sleep(REPORT_SECONDS)

    async def report(self) -> None:
        """Emit what is new since the last report."""
        now = {("Node", node): why for node, why in self._nodes.all().items()}
        versions = {"Node": "v1"}
        for kind, version, informer in self._kinds:
            versions[kind] = version
            now |= {(kind, key): why for key, why in informer.broken.items()}
        for (kind, key), why in now.items():
            if self._reported.get((kind, key)) != why:
                await self._emit(kind, versions[kind], key, why)
            await asyncio.sleep(0)
        self._reported = now

    async def _emit(self, kind: str, version: str, key: str, why: str) -> None:
        namespace, _, name = key.rpartition("/")
        node = kind == "Node"
        about = {"kind": kind, "api_version": version, "name": name}
        about |= {"namespace": namespace} if namespace else {}
        about |= {"uid": self._uid(name)} if node else {}
        text = f"it cannot be read, so nothing is done about it: {why}"
        await self._recorder.emit(about, "Warning", REASON if node else OBJECT_REASON, text)
