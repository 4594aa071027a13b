"""Many who ask, hold and give back over HTTP, and an observer that shares no code with the judge.

The observer counts twice: on the record, by a watch of the Permits in the order in which they were
written, and by the answers: from the moment an answer says yes until its holder gives back.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import msgspec
from support.defender_world import an_ask

from defender.client import DefenderUnreachable, HttpPermits
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError

PERMITS = paths.custom("permits")
PATIENCE = 60.0
"""Seconds in which a permit must be given back, whatever dies meanwhile."""

ZoneOf = Callable[[str], str]


@dataclass
class Count:
    """Open permits by zone, against the limits of the whole and of each zone."""

    most: int
    most_in_zone: int
    zone_of: ZoneOf
    open: dict[str, str] = field(default_factory=dict)
    """Permit to node."""
    violations: list[str] = field(default_factory=list)
    peak: int = 0

    def enter(self, permit: str, node: str) -> None:
        self.open[permit] = node
        self.peak = max(self.peak, len(self.open))
        zones = Counter(self.zone_of(node) for node in self.open.values())
        nodes = Counter(self.open.values())
        if len(self.open) > self.most:
            self.violations.append(f"{len(self.open)} permits: {sorted(self.open)}")
        if max(zones.values()) > self.most_in_zone:
            self.violations.append(f"permits by zone: {zones}")
        if max(nodes.values()) > 1:
            self.violations.append(f"permits by node: {nodes}")

    def leave(self, permit: str) -> None:
        self.open.pop(permit, None)


async def observe(kube: Kube, count: Count, following: asyncio.Event) -> None:
    """Every change of the Permits, in order, until cancelled."""
    version = (await kube.get(PERMITS))["metadata"]["resourceVersion"]
    following.set()
    while True:
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": 300}
        try:
            answer = await kube.open("GET", PERMITS, query, timeout=320)
            async with answer:
                while line := await answer.content.readline():
                    event = msgspec.json.decode(line)
                    version = event["object"]["metadata"]["resourceVersion"]
                    _told(count, event["type"], event["object"])
        except (KubeError, OSError, ValueError):
            await asyncio.sleep(0.1)


def _told(count: Count, type_: str, permit: dict[str, Any]) -> None:
    name = permit["metadata"]["name"]
    if type_ == "DELETED" or permit.get("status", {}).get("state") == "Released":
        count.leave(name)
    elif type_ in ("ADDED", "MODIFIED") and name not in count.open:
        count.enter(name, permit["spec"]["nodeName"])


@dataclass
class Figures:
    """seconds: of each ask that was answered."""

    seconds: list[float] = field(default_factory=list)
    granted: int = 0
    unanswered: int = 0
    lost: list[str] = field(default_factory=list)
    """Permits that were taken from a living holder."""
    stuck: list[str] = field(default_factory=list)

    def told(self, lasted: float) -> dict[str, float]:
        ordered = sorted(self.seconds) or [0.0]
        return {
            "asksPerSecond": round(len(self.seconds) / lasted, 1),
            "permitsPerSecond": round(self.granted / lasted, 1),
            "p50Milliseconds": round(1000 * ordered[len(ordered) // 2], 1),
            "p99Milliseconds": round(1000 * ordered[int(len(ordered) * 0.99)], 1),
            "unanswered": self.unanswered,
        }


class Asker:
    """One holder on one node, again and again until `end` (monotonic); it leaves nothing behind."""

    def __init__(
        self,
        number: int,
        node: str,
        clients: Sequence[HttpPermits],
        count: Count,
        figures: Figures,
        *,
        holds: float = 0.02,
    ) -> None:
        self._chance = random.Random(number)
        self._clients, self._count, self._figures = clients, count, figures
        self._node, self._holds = node, holds
        self._holder = Holder(kind="Test", name=f"asker-{number}", uid=f"uid-{number}")

    @property
    def _client(self) -> HttpPermits:
        return self._chance.choice(self._clients)

    async def run(self, end: float) -> None:
        settled = True
        while monotonic() < end or not settled:
            permit, settled = await self._ask()
            if permit:
                await self._hold(permit)
            if monotonic() > end + PATIENCE:
                self._figures.stuck.append(self._node)
                return

    async def _ask(self) -> tuple[str, bool]:
        """The permit, "" for none; and whether an answer came at all."""
        began = monotonic()
        try:
            verdict = await self._client.ask(an_ask(self._node, holder=self._holder))
        except DefenderUnreachable:
            self._figures.unanswered += 1
            await asyncio.sleep(0.05)
            return "", False
        if verdict.reason in (Reason.STORE_UNAVAILABLE, Reason.STALE_DATA):
            self._figures.unanswered += 1
            await asyncio.sleep(0.05)
            return "", False
        self._figures.seconds.append(monotonic() - began)
        if not verdict.allowed:
            await asyncio.sleep(self._chance.uniform(0, self._holds))
            return "", True
        self._figures.granted += 1
        self._count.enter(verdict.permit, self._node)
        return verdict.permit, True

    async def _hold(self, permit: str) -> None:
        await asyncio.sleep(self._chance.uniform(0, self._holds))
        try:
            found = await self._client.check(permit, 1)
            if not found.allowed and found.reason is Reason.UNKNOWN:
                self._figures.lost.append(f"{permit}: {found.message}")
        except DefenderUnreachable:
            pass
        self._count.leave(permit)
        end = monotonic() + PATIENCE
        while True:
            try:
                await self._client.release(permit)
                return
            except DefenderUnreachable:
                if monotonic() > end:
                    self._figures.stuck.append(permit)
                    return
                await asyncio.sleep(0.05)
