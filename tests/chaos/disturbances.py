"""Disturbances of the cluster that no death of a process explains: the same for the same seed.

CLOCK_STEP      the wall clock of a program of ours jumps by up to ten minutes of the fleet's time,
                either way, and is set right again after `lasts`
NODE_REPLACED   a Node object is deleted and registered again by its kubelet, with a new UID
EVENTS_AWAY     the API server cannot serve Events, as when a separate etcd for Events is down
RULE_EDITED     the rule of an open job gets another priority, and its own again after `lasts`
RULE_DELETED    the rule of an open job is deleted, and created again after `lasts`
PERMIT_DELETED  a person deletes an open Permit
STATUS_WIPED    the status of an open job is gone, as after a restore of the object without it
ETCD_RESTORED   etcd is put back to a backup (chaos.restore); a person lifts the freeze later
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from chaos.fleet import Fleet
from chaos.restore import EtcdBackups

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import NETWORK_ERRORS, Kube
from kubenode.runtime.kube.errors import KubeError
from simulation.demo.hosts import KUBELET
from simulation.demo.watches import CLOSED

LONGEST_STEP = 600.0
"""Seconds of a real fleet's time."""
LONGEST = 20.0
SHORTEST = 0.5
EVENTS = "events"


class Disturbance(StrEnum):
    CLOCK_STEP = "clock step"
    NODE_REPLACED = "Node replaced"
    EVENTS_AWAY = "Events away"
    RULE_EDITED = "rule edited"
    RULE_DELETED = "rule deleted"
    PERMIT_DELETED = "Permit deleted"
    STATUS_WIPED = "status wiped"
    ETCD_RESTORED = "etcd restored"


@dataclass(frozen=True, slots=True)
class PlannedDisturbance:
    """at     seconds after the begin
    lasts  seconds
    share  from 0 to 1, chooses among the possible victims
    """

    at: float
    kind: Disturbance
    lasts: float
    share: float


def plan_disturbances(
    seed: int, seconds: float, every: float, kinds: Sequence[Disturbance]
) -> list[PlannedDisturbance]:
    """Plan disturbances of these kinds in the order of their time, all over after `seconds`.

    every  mean seconds between two of them
    """
    chance = random.Random(f"disturbances {seed}")
    planned = _draw(chance, seconds, every, kinds) if kinds else ()
    return [one for one in planned if one.at + LONGEST < seconds]


def _draw(
    chance: random.Random, seconds: float, every: float, kinds: Sequence[Disturbance]
) -> Iterator[PlannedDisturbance]:
    at = chance.uniform(0.5, 1.5) * every
    while at < seconds:
        kind = chance.choice(kinds)
        yield PlannedDisturbance(at, kind, chance.uniform(SHORTEST, LONGEST), chance.random())
        at += chance.expovariate(1 / every)


class SteppedClock:
    """Implements kubenode.runtime.clock.Clock: another clock, whose wall time may be set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset = timedelta(0)

    def now(self) -> datetime:
        return self._clock.now() + self.offset

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class Disturber:
    """Carries out planned disturbances.

    kube     a client of the people and kubelets of the fleet
    clocks   wall clocks of our programs, by name
    close_resource, open_resource  make the API server refuse a resource, and serve it again
    rules    as they are kept outside the cluster, by name
    """

    def __init__(
        self,
        kube: Kube,
        fleet: Fleet,
        clocks: Mapping[str, SteppedClock],
        clock: Clock,
        speed: float,
        close_resource: Callable[[str], None],
        open_resource: Callable[[str], None],
        backups: EtcdBackups,
        rules: Mapping[str, dict[str, Any]],
    ) -> None:
        self._backups, self._rules = backups, rules
        self._kube, self._fleet, self._clocks = kube, fleet, clocks
        self._clock, self._speed = clock, speed
        self._close_resource, self._open_resource = close_resource, open_resource
        self._busy: set[str] = set()
        self.done: dict[Disturbance, int] = dict.fromkeys(Disturbance, 0)

    async def disturb(self, planned: PlannedDisturbance) -> None:
        """Carry out one disturbance to its end; does nothing where it has no victim now."""
        match planned.kind:
            case Disturbance.CLOCK_STEP:
                happened = await self._step_clock(planned)
            case Disturbance.NODE_REPLACED:
                happened = await self._replace_node(planned)
            case Disturbance.EVENTS_AWAY:
                happened = await self._take_events_away(planned)
            case Disturbance.RULE_EDITED:
                happened = await self._change_rule(planned, deleted=False)
            case Disturbance.RULE_DELETED:
                happened = await self._change_rule(planned, deleted=True)
            case Disturbance.PERMIT_DELETED:
                happened = await self._delete_permit(planned)
            case Disturbance.STATUS_WIPED:
                happened = await self._wipe_status(planned)
            case Disturbance.ETCD_RESTORED:
                happened = await self._backups.restore(planned.share, self._repair_cluster)
        self.done[planned.kind] += happened

    async def _step_clock(self, planned: PlannedDisturbance) -> bool:
        name = _pick(sorted(self._clocks), planned.share)
        step = timedelta(seconds=LONGEST_STEP / self._speed * (2 * (planned.share * 7 % 1) - 1))
        self._clocks[name].offset += step
        await self._clock.sleep(planned.lasts)
        self._clocks[name].offset -= step
        return True

    async def _replace_node(self, planned: PlannedDisturbance) -> bool:
        name = _pick(sorted(self._registering()), planned.share)
        self._busy.add(name)
        await self._until_done(lambda: self._kube.delete(paths.node(name)))
        await self._clock.sleep(min(planned.lasts, 2.0))
        await self._until_done(lambda: self._fleet.register_again(name))
        self._busy.discard(name)
        return True

    async def _take_events_away(self, planned: PlannedDisturbance) -> bool:
        if EVENTS in self._busy:
            return False
        self._busy.add(EVENTS)
        self._close_resource(EVENTS)
        await self._clock.sleep(planned.lasts)
        self._open_resource(EVENTS)
        self._busy.discard(EVENTS)
        return True

    async def _change_rule(self, planned: PlannedDisturbance, *, deleted: bool) -> bool:
        rules = {job["spec"]["remedier"]["name"] for job in self._open_jobs().values()} - self._busy
        if not rules:
            return False
        name = _pick(sorted(rules), planned.share)
        self._busy.add(name)
        path = paths.custom("noderemediers", name)
        rule = await self._until_done(lambda: self._kube.call("GET", path))
        if deleted:
            await self._until_done(lambda: self._kube.delete(path))
        else:
            priority = int(rule["spec"].get("priority") or 0)
            await self._until_done(
                lambda: self._kube.patch(path, {"spec": {"priority": priority + 1}})
            )
        await self._clock.sleep(planned.lasts)
        if deleted:
            fresh = {**rule, "metadata": {"name": name, "labels": rule["metadata"].get("labels")}}
            fresh.pop("status", None)
            await self._until_done(lambda: self._kube.create(paths.custom("noderemediers"), fresh))
        else:
            await self._until_done(lambda: self._kube.patch(path, {"spec": {"priority": priority}}))
        self._busy.discard(name)
        return True

    async def _delete_permit(self, planned: PlannedDisturbance) -> bool:
        if not (permits := sorted(self._fleet.observer.permits)):
            return False
        path = paths.custom("permits", _pick(permits, planned.share))
        await self._until_done(lambda: self._kube.delete(path))
        return True

    async def _wipe_status(self, planned: PlannedDisturbance) -> bool:
        if not (jobs := sorted(self._open_jobs())):
            return False
        path = paths.custom("remedyoperationjobs", _pick(jobs, planned.share), "status")
        await self._until_done(lambda: self._kube.patch(path, {"status": None}))
        return True

    async def _repair_cluster(self) -> None:
        """Bring the cluster from a backup to the present, as people and kubelets do."""
        await self._until_done(self._fleet.tell_again)
        for name, rule in self._rules.items():
            await self._restore_rule(name, rule)

    async def _restore_rule(self, name: str, rule: dict[str, Any]) -> None:
        """Make the rule again, or give it back its priority, as a backup may lack either."""
        kind = paths.custom("noderemediers")
        path = f"{kind}/{name}"
        stored = await self._until_done(lambda: self._kube.call("GET", path))
        if stored is None:
            await self._until_done(lambda: self._kube.create(kind, rule))
            return
        priority = rule["spec"].get("priority") or 0
        if (stored["spec"].get("priority") or 0) != priority and name not in self._busy:
            change = {"spec": {"priority": priority}}
            await self._until_done(lambda: self._kube.patch(path, change))

    def _registering(self) -> set[str]:
        """Names of nodes whose kubelets run: another one would not register again."""
        hosts = self._fleet.hosts.items()
        running = {name for name, host in hosts if host.answers and KUBELET not in host.ill}
        return running - self._busy

    def _open_jobs(self) -> dict[str, Any]:
        jobs = self._fleet.watching.jobs.items()
        return {n: j for n, j in jobs if (j.get("status") or {}).get("phase") not in CLOSED}

    async def _until_done(self, act: Callable[[], Any]) -> Any:
        """Repeat a request while the API server is away; one that is refused is given up."""
        while True:
            try:
                return await act()
            except KubeError as error:
                if 400 <= error.status < 500:
                    return None
            except NETWORK_ERRORS:
                pass
            await self._clock.sleep(1.0)


def _pick(names: list[str], share: float) -> str:
    return names[int(share * len(names)) % len(names)]
