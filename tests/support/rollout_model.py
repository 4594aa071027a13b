"""Machines and their agents as a rollout sees them, without any server: time is stepped.

Each machine has one component. Its agent stages what is assigned, waits for leave, acts, and says
how that ended; what goes wrong is set on the machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from support.clock import T0

from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from kubenode.runtime.term import ALWAYS
from machine.componentset.member import MemberState, RolloutMember
from machine.componentset.rollout import (
    AssignmentMove,
    ConditionMessage,
    RolloutObservation,
    RolloutPlan,
    RolloutState,
)
from machine.componentset.step import step
from machine.inspection.port import InspectionAnswer

TICK = timedelta(seconds=30)


@dataclass
class Host:
    """bad       revisions that fail here
    needs     whether the change waits for a permit
    installed the revision that is in force
    """

    name: str
    zone: str = "a"
    domains: tuple[str, ...] = ()
    canary: bool = False
    newcomer: bool = False
    answers: bool = True
    ready: bool = True
    held: str = ""
    back: tuple[str, str] | None = None
    """What a job of its node wants: from which revision to which."""
    bad: set[str] = field(default_factory=set)
    needs: bool = True
    installed: str = ""
    wanted: AssignmentMove | None = None
    standing: MemberState = MemberState.NONE
    since: datetime | None = None
    assigned_at: datetime | None = None
    unwell_at: datetime | None = None
    history: list[str] = field(default_factory=list)
    acted: list[str] = field(default_factory=list)

    @classmethod
    def at(cls, name: str, revision: str, **rest: object) -> "Host":
        wanted = AssignmentMove(name, revision)
        return cls(
            name,
            installed=revision,
            wanted=wanted,
            standing=MemberState.SUCCEEDED,
            **rest,  # type: ignore[arg-type]
        )

    def member(self, patience: timedelta, now: datetime) -> RolloutMember:
        wanted = self.wanted
        well = self.answers and self.ready
        self.unwell_at = None if well else self.unwell_at or now
        return RolloutMember(
            self.name,
            uid=f"uid-{self.name}",
            zone=self.zone,
            domains=self.domains,
            canary=self.canary,
            fresh=not self.installed,
            newcomer=self.newcomer,
            answers=self.answers,
            available=self.answers and self.ready and self.standing is not MemberState.ACTING,
            open_job=self.held,
            back=self._back,
            rolled_back_from=self.back[0] if self.back and self._at == self.back[1] else "",
            repaired=self.back is not None and bool(self.held),
            revision=self._at,
            attempt=wanted.attempt if wanted else 0,
            batch=wanted.batch if wanted else 0,
            standing=self.shown,
            since=self._since,
            patience=patience,
            version=self.installed,
            why="its service does not start" if self.standing is MemberState.FAILED else "",
        )

    @property
    def _at(self) -> str:
        return self.wanted.revision if self.wanted else ""

    @property
    def _back(self) -> str:
        wants = self.back is not None and self.held and self._at == self.back[0]
        return self.back[1] if self.back is not None and wants else ""

    @property
    def shown(self) -> MemberState:
        """A dead agent's last word is no success, and it waits for nothing."""
        well = self.answers and self.ready
        if self.standing is MemberState.SUCCEEDED and not well:
            return MemberState.UNWELL
        if self.standing is MemberState.WAITING and not self.answers:
            return MemberState.PENDING
        return self.standing

    @property
    def _since(self) -> datetime | None:
        if self.shown is self.standing:
            return self.since
        return self.unwell_at if self.shown is MemberState.UNWELL else self.assigned_at

    def assign(self, move: AssignmentMove, now: datetime) -> None:
        assert self.wanted != move, "written again though nothing changed"
        self.wanted, self.since, self.assigned_at = move, now, now
        self.standing = MemberState.AHEAD if move.ahead else MemberState.PENDING
        if not move.ahead:
            self.history.append(move.revision)

    def live(self, allowed: bool, now: datetime) -> None:
        """What its agent does in one tick."""
        if self.wanted is None or not self.answers:
            return
        match self.standing:
            case MemberState.PENDING if self.wanted.revision == self.installed:
                self.standing, self.since = MemberState.SUCCEEDED, None
            case MemberState.PENDING if self.needs and not self.newcomer:
                self.standing, self.since = MemberState.WAITING, None
            case MemberState.PENDING:
                self.standing = MemberState.ACTING
            case MemberState.WAITING if allowed:
                self.standing, self.since = MemberState.ACTING, now
                self.acted.append(self.wanted.revision)
            case MemberState.ACTING:
                if self.wanted.revision in self.bad:
                    self.standing = MemberState.FAILED
                else:
                    self.installed, self.standing = self.wanted.revision, MemberState.SUCCEEDED
                self.since = None
            case _:
                pass


@dataclass
class World:
    hosts: dict[str, Host]
    strategy: UpdateStrategy
    target: str = "B"
    rollout: RolloutState = field(default_factory=lambda: RolloutState(current="A", update="A"))
    now: datetime = T0
    paused: bool = False
    frozen: bool = False
    meltdown: str = ""
    window: Callable[[datetime], bool] = lambda now: True
    problem: ConditionMessage | None = None
    inspect: Callable[[], InspectionAnswer] | None = None
    plan: RolloutPlan = field(default_factory=RolloutPlan)
    phases: list[str] = field(default_factory=list)
    inspections: int = 0
    clock_since: datetime = ALWAYS

    @classmethod
    def of(cls, *hosts: Host, strategy: UpdateStrategy | None = None, **rest: object) -> "World":
        named = {host.name: host for host in hosts}
        return cls(named, strategy or quick(), **rest)  # type: ignore[arg-type]

    def members(self) -> list[RolloutMember]:
        return [
            host.member(self.strategy.machine_timeout, self.now) for host in self.hosts.values()
        ]

    def seen(self, inspected: InspectionAnswer | None = None) -> RolloutObservation:
        return RolloutObservation(
            members=self.members(),
            target=self.target,
            now=self.now,
            problem=self.problem,
            paused=self.paused,
            frozen=self.frozen,
            meltdown=self.meltdown,
            window=self.window(self.now),
            inspected=inspected,
            clock_since=self.clock_since,
        )

    def lead_with_clock(self, off: timedelta) -> None:
        """Another leader takes over, whose clock is ahead of the one before by `off`."""
        self.now += off
        self.clock_since = self.now

    def decide(self) -> RolloutPlan:
        """One look, with the inspection that it asks for; nothing is assigned yet."""
        before = self.rollout
        self.rollout, self.plan = step(before, self.strategy, self.seen())
        if self.plan.inspect and self.inspect is not None:
            self.inspections += 1
            answer = self.inspect()
            self.rollout, self.plan = step(before, self.strategy, self.seen(answer))
        if not self.phases or self.phases[-1] != self.rollout.phase:
            self.phases.append(str(self.rollout.phase))
        return self.plan

    def turn(self) -> None:
        """One look, what it wants assigned, one tick of the agents."""
        plan = self.decide()
        for move in plan.moves:
            self.hosts[move.machine].assign(move, self.now)
        for host in list(self.hosts.values()):
            host.live(host.name in plan.allowed, self.now)
        self.now += TICK

    def run(self, turns: int = 400, until: Callable[["World"], bool] = lambda world: False) -> None:
        for _ in range(turns):
            self.turn()
            if until(self):
                return

    def to_phase(self, phase: str, turns: int = 400) -> None:
        self.run(turns, lambda world: world.rollout.phase == phase)
        assert self.rollout.phase == phase, (self.rollout, self.plan)

    def on(self, revision: str) -> list[str]:
        return sorted(host.name for host in self.hosts.values() if host.installed == revision)

    def assigned(self, revision: str) -> list[str]:
        return sorted(
            host.name
            for host in self.hosts.values()
            if host.wanted is not None
            and host.wanted.revision == revision
            and not host.wanted.ahead
        )


def fleet(count: int, zones: str = "abc", **rest: object) -> list[Host]:
    return [Host.at(f"m{i:02d}", "A", zone=zones[i % len(zones)], **rest) for i in range(count)]


def quick(**rest: object) -> UpdateStrategy:
    """Short times, no staging ahead; the rest by default."""
    given = {"bake_time": "1m", "pre_stage": False} | rest
    return UpdateStrategy.model_validate(given)


__all__ = ["TICK", "Host", "World", "fleet", "quick"]
