"""What became of a run: was anything done that must not be, and is anything left undone?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.blows import Blow, Sort
from chaos.fleet import Fleet
from chaos.restore import EtcdBackups

from simulation.demo.ledger import InjectedFault
from simulation.demo.summary import booted, by_kind, findings, spread
from simulation.demo.watches import CLOSED

LATE = "the breaker did not open"
"""No violation by itself: who should open it may be dead. Permits given meanwhile are judged."""
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Left:
    """What is not as it should be once all is calm, in words."""

    faults: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    permits: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        return not (self.faults or self.jobs or self.permits or self.nodes)

    def told(self) -> dict[str, list[str]]:
        return {
            "faultsLeft": self.faults[:SHOWN],
            "jobsStuck": self.jobs[:SHOWN],
            "permitsLeft": self.permits[:SHOWN],
            "nodesLeftMarked": self.nodes[:SHOWN],
        }


def left(fleet: Fleet) -> Left:
    """As the observer has seen it so far."""
    return Left(
        [f"{f.node}: {f.kind}" for f in fleet.ledger.faults if f.kind.real and f.ended is None],
        [_job(name, job) for name, job in fleet.watching.jobs.items() if _open(job)],
        list(fleet.observer.permits),
        [name for name, node in fleet.observer.nodes.items() if node.ours],
    )


def _open(job: Mapping[str, Any]) -> bool:
    return (job.get("status") or {}).get("phase") not in CLOSED


def _job(name: str, job: Mapping[str, Any]) -> str:
    status = job.get("status") or {}
    hold = status.get("hold") or {}
    return f"{name}: {status.get('phase')} {hold.get('reason') or status.get('reason') or ''}"


def judged(
    fleet: Fleet, remains: Left, struck: Sequence[Blow], backups: EtcdBackups | None = None
) -> dict[str, Any]:
    """JSON; `holds` says whether the run was well. Times are seconds of the run."""
    observer, ledger = fleet.observer, fleet.ledger
    violations = [f for f in observer.limit_violations if f.what != LATE]
    real = [fault for fault in ledger.faults if fault.kind.real]
    looked = observer.acts > 0 and not fleet.watching.relists
    well = not observer.false_actions and not violations and remains.nothing and looked
    return {
        "holds": well and (backups is None or froze(backups)),
        "falseActions": len(observer.false_actions),
        "limitViolations": len(violations),
        "faultsInjected": len(real),
        "faultsHealed": sum(fault.ended is not None for fault in real),
        "healedByUs": len(ledger.healed),
        "faults": by_kind(ledger.faults),
        "booted": booted(ledger.faults),
        "jobs": dict(sorted(Counter(fleet.watching.phases).items())),
        "actsJudged": observer.acts,
        "permitsJudged": observer.grants,
        "observerGaps": fleet.watching.relists,
        "breakersOpened": len(observer.breakers.episodes),
        "breakersLate": len(observer.limit_violations) - len(violations),
        "blows": blows_told(struck),
        "timeToDecide": spread(_decided(fault) for fault in real if fault.decided is not None),
        "timeToHeal": spread(f.healed - f.began for f in ledger.healed if f.healed is not None),
        **remains.told(),
        **(restores(backups) if backups is not None else {}),
        **findings("falseActionsSeen", observer.false_actions),
        **findings("limitViolationsSeen", violations),
    }


def froze(backups: EtcdBackups) -> bool:
    """Whether each restore was noticed, and nothing destroyed before a person lifted the freeze."""
    return not backups.freezes.unnoticed and not backups.acts_while_frozen


def restores(backups: EtcdBackups) -> dict[str, Any]:
    freezes = backups.freezes
    return {
        "restores": freezes.restores,
        "restoresUnnoticed": freezes.unnoticed,
        "frozenAgain": freezes.again,
        "noticedAfter": freezes.notice,
        "destructiveActsWhileFrozen": len(backups.acts_while_frozen),
        "destructiveActsBeforeNotice": len(backups.acts_before_notice),
        **findings("actsWhileFrozenSeen", backups.acts_while_frozen),
        **findings("actsBeforeNoticeSeen", backups.acts_before_notice),
    }


def _decided(fault: InjectedFault) -> float:
    decided = fault.decided if fault.decided is not None else fault.began
    return decided - (fault.signalled if fault.signalled is not None else fault.began)


def blows_told(struck: Sequence[Blow]) -> dict[str, dict[str, int]]:
    """How often each sort fell on whom."""
    counted: dict[str, Counter[str]] = {}
    for blow in struck:
        counted.setdefault(blow.victim, Counter())[Sort(blow.sort).value] += 1
    return {victim: dict(sorted(counts.items())) for victim, counts in sorted(counted.items())}
