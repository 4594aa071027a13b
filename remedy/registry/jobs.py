"""Jobs by the rules that made them: how they ended, and which rule versions they still need.

Both are updated by changes: 10,000 closed jobs of the last days are counted once each.
"""

from collections import Counter
from collections.abc import Collection

from kubenode.api.v1alpha1 import JobPhase, Mode, RemedyOperationJob
from kubenode.api.v1alpha1.noderemedier import JobCounts
from remedy.job.model import Job
from remedy.registry.select import needs_its_rule

ENDED = {
    JobPhase.SUCCEEDED: "succeeded",
    JobPhase.FAILED: "failed",
    JobPhase.CANCELLED: "cancelled",
    JobPhase.NEEDS_HUMAN: "needs_human",
    JobPhase.SHADOWED: "",
}
"""Field of JobCounts by phase; jobs in other phases are running. Shadowed jobs are not counted."""


class JobLedger:
    """Counts jobs by rule and tracks jobs that still need their rule version."""

    def __init__(self) -> None:
        self._counted: dict[str, Counter[str]] = {}
        self._following: dict[str, RemedyOperationJob] = {}

    def changed(self, old: RemedyOperationJob | None, new: RemedyOperationJob | None) -> None:
        """Handle a change from the informer of jobs."""
        if old is not new:
            self._count(old, -1)
            self._count(new, 1)
        if new is not None and new.spec.remedier is not None and needs_its_rule(Job.of(new)):
            self._following[new.metadata.name] = new
        elif (job := new or old) is not None:
            self._following.pop(job.metadata.name, None)

    def following(self) -> Collection[RemedyOperationJob]:
        """Return the jobs that still need the version of their rule from their creation."""
        return self._following.values()

    def follows(self, name: str) -> bool:
        return name in self._following

    def counts(self, rule: str) -> JobCounts:
        """Return the counts of the rule's existing jobs; jobs deleted after their TTL no longer
        count.
        """
        return JobCounts(**+self._counted.get(rule, Counter()))

    def _count(self, job: RemedyOperationJob | None, by: int) -> None:
        if job is None or job.spec.remedier is None:
            return
        if job.spec.mode in (Mode.DRY_RUN, Mode.OFF):
            return
        by_phase = self._counted.setdefault(job.spec.remedier.name, Counter())
        if field := ENDED.get(job.status.phase, "running"):
            by_phase[field] += by
        by_phase["relapsed"] += by * bool(job.spec.previous)
        if not any(by_phase.values()):
            del self._counted[job.spec.remedier.name]
