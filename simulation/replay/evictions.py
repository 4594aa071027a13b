"""Pods of simulated nodes: how long they take to terminate, and what blocks their eviction."""

from dataclasses import dataclass
from datetime import datetime

from kubenode.runtime.drain.observation import Blocked, Going, Pods
from kubenode.runtime.patience import patience
from remedy.job.migration.acts import PodAct
from remedy.job.model import JobActResult
from simulation.replay import hosts
from simulation.replay.signals import Evictions


@dataclass(slots=True)
class Leaving:
    """The pods of the node of one job, as the job observes them.

    ends: when each evicted or deleted pod will be gone.
    """

    ends: tuple[datetime, ...] = ()
    _refused: Blocked | None = None
    _since: datetime | None = None

    def evict(self, pods: tuple[str, ...], answer: Evictions | None, now: datetime) -> JobActResult:
        """Evict the pods.

        answer: what the API server answers; the eviction is granted if it is None or refuses
            nothing.
        """
        if answer is None or answer.granted:
            self._go(len(pods), now)
            return JobActResult(PodAct.EVICT, evicted=pods)
        self._since = self._since or now
        until = now + patience(now - self._since)
        self._refused = Blocked(pods[0], answer.budget, answer.message, until)
        return JobActResult(PodAct.EVICT, blocked=self._refused)

    def delete(self, count: int, now: datetime) -> JobActResult:
        self._go(count, now)
        return JobActResult(PodAct.DELETE_PODS)

    def observe_pods(self, count: int, now: datetime) -> Pods:
        """Return the pods that remain.

        count: the number of pods before any was evicted.
        """
        names = tuple(f"pods/{n}" for n in range(count))
        if self.ends or not count:
            departures = zip(names, self.ends, strict=False)
            going = tuple(Going(name, ends) for name, ends in departures if ends > now)
            return Pods(remaining=len(going), every=tuple(g.pod for g in going), going=going)
        refused = self._refused
        if refused is not None and refused.until is not None and refused.until > now:
            return Pods(remaining=count, every=names, blocked=refused, at=refused.until)
        return Pods(remaining=count, every=names, due=names, blocked=refused)

    def _go(self, count: int, now: datetime) -> None:
        self._refused = self._since = None
        first = now + hosts.GRACE
        self.ends = tuple(first + n * hosts.EACH_POD for n in range(count))
