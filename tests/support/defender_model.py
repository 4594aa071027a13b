"""What a person would check with pencil and paper: who believes to hold a permit, and what the
law was when it was granted. Shares no code with Kube Defender.

Counted is what the askers were told, for they act on it: an asker holds from an allowed answer
until it gives back, is refused when it asks, checks or renews, or dies.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.v1alpha1 import DefenderPolicy, Disruption, Operation, Permit
from kubenode.api.v1alpha1.permit import Holder

HOUR = timedelta(hours=1)
STRONG = (Disruption.PODS, Disruption.NODE)
ZONE = "topology.kubernetes.io/zone"
OPENS, CLOSES = 9, 16
BURST_LEAST = 3


@dataclass(frozen=True)
class Law:
    """A policy in plain numbers; None: no such limit. Rate is per hour."""

    at_once: int = 3
    in_zone: int = 2
    percent: int | None = None
    healthy: int = 0
    rate: tuple[int, int] | None = None
    hosts: int = 3
    paused: str = ""
    """"cluster", a zone, or a node."""
    windows: bool = False
    trips: int | None = None
    """Percent of unhealthy nodes that open the cluster's breaker, from 3 nodes on."""

    def policy(self) -> DefenderPolicy:
        limits: list[dict[str, Any]] = [
            {"scope": "Cluster", "maxConcurrent": self.at_once, "minHealthy": self.healthy},
            {"scope": "Label", "label": ZONE, "maxConcurrent": self.in_zone},
            {"scope": "Cluster", "classes": ["Host"], "maxConcurrent": self.hosts},
        ]
        if self.percent is not None:
            limits.append({"scope": "Cluster", "maxConcurrent": f"{self.percent}%"})
        if self.rate is not None:
            count, burst = self.rate
            limits[0]["rate"] = {"count": count, "per": "1h", "burst": burst}
        trip: dict[str, Any] = {"minNodes": 1_000_000}
        if self.trips is not None:
            trip = {"minNodes": 3, "unhealthyRatio": f"{self.trips}%"}
            trip |= {"newFaultsPer10m": "100%", "escalations": {"count": 1000, "per": "1h"}}
        spec: dict[str, Any] = {
            "nodes": {"all": True},
            "limits": limits,
            "perNode": {"maxActs": 1000, "within": "24h"},
            "smallPool": {"nodes": 0},
            "pauses": [self._pause()] if self.paused else [],
            "windows": [{"from": f"{OPENS:02}:00", "to": f"{CLOSES:02}:00"}]
            if self.windows
            else [],
            "breaker": {
                "scopes": [{"scope": "Cluster"}],
                "trip": trip,
                "open": "1m",
                "resume": {"start": 1, "factor": 10, "every": "1m"},
                "commonCause": {"minFaults": 1000},
            },
        }
        return DefenderPolicy.from_user({"metadata": {"name": "default"}, "spec": spec})

    def _pause(self) -> dict[str, Any]:
        if self.paused == "cluster":
            return {"scope": "Cluster"}
        if self.paused.startswith("z"):
            return {"scope": "Label", "label": ZONE, "value": self.paused}
        return {"scope": "Node", "value": self.paused}


@dataclass
class Plain:
    """A node."""

    name: str
    zone: str
    uid: int = 0
    born: datetime | None = None
    """None: long ago, and never made anew."""
    ready: bool = True
    cordoned: bool = False

    @property
    def healthy(self) -> bool:
        return self.ready and not self.cordoned


@dataclass
class Agent:
    """One that wants a node for itself. `permit` is what it believes to hold."""

    name: str
    node: str
    class_: Disruption
    operation: Operation
    is_job: bool
    severity: str = "Warning"
    permit: str = ""
    held_as: Disruption = Disruption.NONE
    zone_at_grant: str = ""
    alive: bool = True
    asks_at: datetime | None = None
    """When it asks again; None: it asks for nothing now."""

    @property
    def holder(self) -> Holder:
        """A job, or one of a kind that Kube Defender may not look at: it is no object here."""
        kind = "RemedyOperationJob" if self.is_job else "Rollout"
        return Holder(kind=kind, name=self.name, uid=f"uid-{self.name}")

    @property
    def holds(self) -> bool:
        return bool(self.permit) and self.alive

    def lets_go(self) -> None:
        self.permit, self.held_as = "", Disruption.NONE


@dataclass
class Pencil:
    """`jumped`: the wall clock was set since the rate was; then nobody can tell how fast it was."""

    law: Law = field(default_factory=Law)
    nodes: dict[str, Plain] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    jumped: bool = False
    rate_since: datetime | None = None
    told: dict[str, datetime] = field(default_factory=dict)
    """When each permit was first granted for a strong class, as the record says."""
    epoch: int = 0
    """Grows with each change that may tighten a limit."""
    recorded: dict[tuple[str, Disruption], int] = field(default_factory=dict)
    """The epoch in which a permit was first on record for a class."""

    def holding(self) -> list[Agent]:
        return [agent for agent in self.agents if agent.holds]

    def govern(self, law: Law, now: datetime) -> None:
        if law.rate != self.law.rate:
            self.rate_since, self.jumped = now, False
        self.law = law
        self.epoch += 1

    def on_record(self, permits: Iterable[Permit]) -> None:
        """What the record shows after a step: granted then, even if nobody has heard of it yet."""
        for permit in permits:
            for grant in permit.spec.grants:
                self.recorded.setdefault((permit.metadata.name, grant.class_), self.epoch)

    def granted(self, agent: Agent, permit: Permit, class_: Disruption, now: datetime) -> None:
        """An answer that allows came in. Raises AssertionError for what the law forbids."""
        name = permit.metadata.name
        assert agent.alive
        fresh = name != agent.permit or class_ is not agent.held_as
        agent.permit, agent.held_as = name, class_
        if not fresh:
            return
        node = self.nodes.get(agent.node)
        assert node is not None, "a permit for a node that is gone"
        agent.zone_at_grant = node.zone
        assert all(a.node != agent.node for a in self.holding() if a is not agent), "two on a node"
        if self.recorded.get((name, class_), self.epoch) < self.epoch:
            return  # granted before the law was tightened, and heard of only now
        self.within(agent, node, now)
        if class_ in STRONG:
            strong = [grant.at for grant in permit.spec.grants if grant.class_ in STRONG]
            self.rate_is_kept(name, min(strong))

    def within(self, agent: Agent, node: Plain, now: datetime) -> None:
        law, others = self.law, [a for a in self.holding() if a is not agent]
        assert law.paused not in ("cluster", node.zone, node.name), f"{law.paused} is paused"
        if law.windows:
            assert OPENS <= now.hour < CLOSES, f"granted at {now}"
        self.breaker_was_closed(agent)
        if agent.held_as is Disruption.HOST:
            hosts = [a for a in others if a.held_as is Disruption.HOST]
            assert len(hosts) < law.hosts, "too many of class Host"
        if agent.held_as not in STRONG:
            return
        strong = [a for a in others if a.held_as in STRONG]
        assert len(strong) < law.at_once, f"{len(strong) + 1} at once"
        if law.percent is not None:
            most = max(1, len(self.nodes) * law.percent // 100)
            assert len(strong) < most, f"{len(strong) + 1} of {len(self.nodes)} nodes"
        zone = [a for a in strong if node.zone in (a.zone_at_grant, self._zone(a))]
        assert len(zone) < law.in_zone, f"{len(zone) + 1} in {node.zone}"
        taken = {a.node for a in others} | {agent.node}
        healthy = sum(n.healthy and n.name not in taken for n in self.nodes.values())
        assert healthy >= law.healthy, f"{healthy} stay healthy"

    def rate_is_kept(self, permit: str, at: datetime) -> None:
        self.told.setdefault(permit, at)
        if self.law.rate is None or self.rate_since is None or self.jumped:
            return
        count, burst = self.law.rate
        tokens, last = float(burst), self.rate_since
        for granted in sorted(each for each in self.told.values() if each > self.rate_since):
            tokens = min(float(burst), tokens + (granted - last) / HOUR * count) - 1
            last = granted
            assert tokens > -0.01, "faster than the rate"

    def _zone(self, agent: Agent) -> str:
        node = self.nodes.get(agent.node)
        return node.zone if node is not None else ""

    def breaker_was_closed(self, agent: Agent) -> None:
        """Nodes that somebody holds may be down because of it."""
        if self.law.trips is None:
            return
        held = {a.node for a in self.holding()}
        old = [n for n in self.nodes.values() if n.born is None]  # a new one may be starting
        down = [n for n in old if not n.ready and n.name not in held]
        bad = len(down) - (agent.node in {n.name for n in down})
        trips = bad >= 3 and bad * 100 > len(self.nodes) * self.law.trips
        assert not trips, f"granted while {bad} of {len(self.nodes)} nodes are down"
