"""The pods of a FakeWorld beyond plain eviction: what hangs, what is surged, whose gang is saved.

What must never happen is asserted where it would happen: force without proof, replicas that nobody
wrote down, a gang that leaves before its work was saved.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.runtime.drain.gangs import read as read_gangs
from kubenode.runtime.drain.observation import Going, Pods, Surge, Surges
from remedy.job.migration import surge_replicas
from remedy.job.migration.acts import PodAct
from remedy.job.migration.force import deletion
from remedy.job.model import Job, JobActResult, JobObservation, StepAct

GRACE = timedelta(seconds=30)
Write = Callable[[str, Callable[[], None]], None]


@dataclass
class FakePods:
    """hang       pods that never end once they were told to
    surged     a Deployment whose replacements can run first, "" for none
    ready      whether they get ready
    gang       name of a gang that all pods belong to, "" for none
    saves      answers of its receiver: None is under way
    """

    hang: bool = False
    surged: str = ""
    ready: bool = True
    gang: str = ""
    saves: list[str | None] = field(default_factory=list)
    replicas: int = 2
    raised: int = 0
    asked: int = 0
    deleted: list[str] = field(default_factory=list)
    ends: dict[str, datetime] = field(default_factory=dict)

    def seen(self, job: Job, pods: list[str], going: list[str], now: datetime) -> Pods:
        ends = tuple(Going(p, self.ends.setdefault(p, now + GRACE)) for p in going)
        due = tuple(p for p in pods if p not in going)
        if self.gang and due and not self._over(job):
            return Pods(
                remaining=len(pods), every=tuple(pods), patient=len(due), checkpoint=(self.gang,)
            )
        surges, due = self._surges(job, due, now)
        return Pods(remaining=len(pods), every=tuple(pods), due=due, going=ends, surges=surges)

    def _over(self, job: Job) -> bool:
        record = job.record
        state = read_gangs(record.output).get(self.gang) if record is not None else None
        return state is not None and state.is_finished

    def _surges(
        self, job: Job, due: tuple[str, ...], now: datetime
    ) -> tuple[Surges, tuple[str, ...]]:
        record = job.record
        output = record.output if record is not None else {}
        mine = surge_replicas.read(output)
        if not self.surged or surge_replicas.short("rs") in surge_replicas.plain(output):
            return Surges(), due
        if not due:
            return Surges(finished={s.key: "" for s in mine}), due
        if not mine:
            return Surges(new=(Surge(self.surged, "rs", 1, now),)), ()
        if not self.raised:
            return Surges(up=tuple(mine)), ()
        if not self.ready:
            late = now >= mine[0].since + surge_replicas.PATIENCE
            return Surges(finished={self.surged: "not ready in time"} if late else {}), ()
        return Surges(), due[:1]

    def move(
        self, job: Job, what: StepAct, seen: JobObservation, *, dark: bool, write: Write
    ) -> JobActResult:
        match what:
            case PodAct.DELETE_PODS:
                keys, force = deletion(seen)
                assert dark or not force, "grace 0 on a host that may run"
                write("delete pods", lambda: self.deleted.extend(keys))
                return JobActResult(what, evicted=keys)
            case PodAct.SURGE:
                assert surge_replicas.owned(job), "replicas that nobody would take off"
                write("surge", lambda: setattr(self, "raised", 1))
                return JobActResult(what)
            case PodAct.UNSURGE:
                write("unsurge", lambda: setattr(self, "raised", 0))
                over = seen.pods.surges.finished if seen.pods is not None else {}
                lowered = {s.key: over.get(s.key, "") for s in surge_replicas.owned(job)}
                return JobActResult(what, lowered=lowered)
            case _:
                said = self.saves.pop(0) if self.saves else ""
                write("checkpoint", lambda: setattr(self, "asked", self.asked + 1))
                return JobActResult(what, saved={} if said is None else {self.gang: said})
