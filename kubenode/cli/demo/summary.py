"""The demo's last word: one JSON object, also read by tests and by people who compare runs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubenode.cli.demo.ledger import Fault, Ledger
from kubenode.cli.demo.observer import Finding, Observer

SHOWN = 20
"""Findings that are spelled out; the counts are complete."""


@dataclass(frozen=True, slots=True)
class Run:
    """How the demo was run."""

    nodes: int
    seed: int
    speed: float
    seconds: float


def summary(
    run: Run, ledger: Ledger, observer: Observer, phases: Iterable[str], gaps: int = 0
) -> dict[str, Any]:
    """The figures of a run. All times are seconds of the demo, not of what they stand for.

    phases        the phase of each job at the end
    gaps          how often the observer lost its watch and had to list again: what happened
                  meanwhile was not judged, so both zero-counts are worth less if it is not 0
    timeToDetect  fault began -> a detector's report readable at the API server
    timeToDecide  that report -> the job exists; contains the rule's `for` and `groupWait`
    timeToHeal    fault began -> job Succeeded, the proof by fresh facts included; healed faults
    """
    real = [fault for fault in ledger.faults if fault.kind.real]
    healed = ledger.healed
    return {
        "nodes": run.nodes,
        "seed": run.seed,
        "speed": run.speed,
        "seconds": round(run.seconds, 1),
        "faultsInjected": len(real),
        "faults": by_kind(ledger.faults),
        "jobs": dict(sorted(Counter(phases).items())),
        "healed": len(healed),
        "falseActions": len(observer.false_actions),
        "limitViolations": len(observer.limit_violations),
        "actsJudged": observer.acts,
        "permitsJudged": observer.grants,
        "observerGaps": gaps,
        "timeToDetect": spread(f.signalled - f.began for f in real if f.signalled is not None),
        "timeToDecide": spread(
            f.decided - f.signalled
            for f in real
            if f.decided is not None and f.signalled is not None
        ),
        "timeToHeal": spread(f.healed - f.began for f in healed if f.healed is not None),
        **findings("falseActionsSeen", observer.false_actions),
        **findings("limitViolationsSeen", observer.limit_violations),
    }


def by_kind(faults: Iterable[Fault]) -> Mapping[str, int]:
    """All that was injected, noise included, which `faultsInjected` leaves out."""
    return dict(sorted(Counter(fault.kind.value for fault in faults).items()))


def findings(name: str, found: list[Finding]) -> dict[str, list[str]]:
    """Absent when there are none."""
    if not found:
        return {}
    return {name: [f"{f.at:.2f} {f.node}: {f.what}" for f in found[:SHOWN]]}


def spread(values: Iterable[float]) -> dict[str, float | None]:
    """Median and 99th percentile by nearest rank, to the millisecond; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p99": None}
    return {"p50": _rank(ordered, 0.50), "p99": _rank(ordered, 0.99)}


def _rank(ordered: list[float], share: float) -> float:
    index = min(len(ordered) - 1, max(0, -(-int(share * 100) * len(ordered) // 100) - 1))
    return round(ordered[index], 3)
