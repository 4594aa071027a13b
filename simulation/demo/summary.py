"""The demo's last word: one JSON object, also read by tests and by people who compare runs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from simulation.demo.ledger import InjectedFault, Ledger
from simulation.demo.observer import Observer, ObserverFinding

SHOWN = 20
"""Findings that are spelled out; the counts are complete."""


@dataclass(frozen=True, slots=True)
class Run:
    """How the demo was run. behind: most seconds by which the simulated fleet was late."""

    scenario: str
    nodes: int
    seed: int
    speed: float
    seconds: float
    behind: float = 0.0


def summary(
    run: Run,
    ledger: Ledger,
    observer: Observer,
    phases: Iterable[str],
    gaps: int = 0,
    until: float = math.inf,
) -> dict[str, Any]:
    """The figures of a run. All times are seconds of the demo, not of what they stand for.

    phases        the phase of each job at the end
    until         the end of the run, on the clock of ledger and observer
    gaps          how often the observer lost its watch and had to list again: what happened
                  meanwhile was not judged, so both zero-counts are worth less if it is not 0
    breaker…      by its status, as far as the observer's own count explains it; see `storms`
    timeToDetect  fault began -> a detector's report readable at the API server
    timeToDecide  that report -> the job exists; contains the rule's `for`
    booted        faults that only a boot ends, by who booted the machine
    timeToHeal    fault began -> job Succeeded, the proof by fresh facts included; healed faults
    """
    real = [fault for fault in ledger.faults if fault.kind.real]
    healed = ledger.healed
    return {
        "scenario": run.scenario,
        "nodes": run.nodes,
        "seed": run.seed,
        "speed": run.speed,
        "seconds": round(run.seconds, 1),
        "secondsBehind": round(run.behind, 1),
        "faultsInjected": len(real),
        "faults": by_kind(ledger.faults),
        "jobs": dict(sorted(Counter(phases).items())),
        "healed": len(healed),
        "booted": booted(ledger.faults),
        "falseActions": len(observer.false_actions),
        "limitViolations": len(observer.limit_violations),
        "actsJudged": observer.acts,
        "permitsJudged": observer.grants,
        "observerGaps": gaps,
        **storms(ledger, observer, until),
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


def storms(ledger: Ledger, observer: Observer, until: float) -> dict[str, Any]:
    """What breakers did.

    breakerOpened        how often one opened that had to, or might, by the observer's own count
    breakerClosed        how often one closed again
    breakerOpenSeconds   how long they were open, before they went half-open
    permitsWhileOpen     permits given in a scope while it was open, but for `reservedPermits`
    halfOpenMostPermits  most permits at once in a half-open scope
    healedElsewhere      faults healed outside of a scope while its breaker was not closed
    breakerUnexplained   openings that the observer's count does not explain; absent if none
    """
    explained = [e for e in observer.breakers.episodes if e.explained]
    strange = len(observer.breakers.episodes) - len(explained)
    ends = [(e, min(x for x in (e.half_open, e.closed, until) if x is not None)) for e in explained]
    elsewhere = sum(
        any(e.opened <= healed <= (e.closed or until) and f.node not in e.nodes for e in explained)
        for f in ledger.healed
        if (healed := f.healed) is not None
    )
    return {
        "breakerOpened": len(explained),
        "breakerClosed": sum(e.closed is not None for e in explained),
        "breakerOpenSeconds": round(sum(end - e.opened for e, end in ends), 1),
        "permitsWhileOpen": observer.resuming.while_open,
        "reservedPermits": observer.resuming.reserved,
        "halfOpenMostPermits": observer.resuming.most,
        "healedElsewhere": elsewhere,
        **({"breakerUnexplained": strange} if strange else {}),
    }


def by_kind(faults: Iterable[InjectedFault]) -> Mapping[str, int]:
    """All that was injected, noise included, which `faultsInjected` leaves out."""
    return dict(sorted(Counter(fault.kind.value for fault in faults).items()))


def booted(faults: Iterable[InjectedFault]) -> Mapping[str, int]:
    """Who ended the faults that nothing but a boot ends: an agent, the provider, a person."""
    ended = (fault.ended_by.value for fault in faults if fault.kind.boots and fault.ended_by)
    return dict(sorted(Counter(ended).items()))


def findings(name: str, entries: list[ObserverFinding]) -> dict[str, list[str]]:
    """Absent when there are none."""
    if not entries:
        return {}
    return {name: [f"{f.at:.2f} {f.node}: {f.what}" for f in entries[:SHOWN]]}


def spread(values: Iterable[float]) -> dict[str, float | None]:
    """Median and 99th percentile by nearest rank, to the millisecond; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p99": None}
    return {"p50": _rank(ordered, 0.50), "p99": _rank(ordered, 0.99)}


def _rank(ordered: list[float], share: float) -> float:
    index = min(len(ordered) - 1, max(0, -(-int(share * 100) * len(ordered) // 100) - 1))
    return round(ordered[index], 3)
