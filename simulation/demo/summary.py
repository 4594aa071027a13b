"""The demo's summary: one JSON object, which tests read too, and with which runs are compared."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simulation.demo.ledger import InjectedFault, Ledger
from simulation.demo.observer import Observer, ObserverFinding

BEHIND, REAL_BEHIND = 2.0, 40.0
"""Seconds of the demo, and of a real fleet, above which the simulated fleet no longer behaves like
a real one. The larger one counts at a given speed.
"""
UNJUDGED = "quiet"
"""The scenario whose faults are brought by the user."""
SHOWN = 20
"""Findings that are listed; the counts are complete."""


@dataclass(frozen=True, slots=True)
class Run:
    """How the demo was run.

    behind: the largest delay of the simulated fleet in seconds.
    """

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
    """Return the figures of a run. All times are seconds of the demo, not of a real fleet.

    phases: the phase of each job at the end.
    gaps: how often the observer lost its watch and listed again. Changes in between are not judged,
        so if it is not 0, falseActions and limitViolations are less reliable.
    until: the end of the run on the clock of ledger and observer.

    Some figures:

    timeToDetect: from the fault to a detector's report at the API server.
    timeToDecide: from that report to the job; includes the rule's `for`.
    timeToHeal: from the fault to the phase Succeeded, verification included, of healed faults.
    booted: faults that only a boot ends, by who booted the machine.
    faultsOpen: faults that nothing has ended yet.
    faultsOpenBehindBreaker: those of them whose node is in the scope of a breaker that is not
        closed.
    figuresMeaningful: false if the machine was too slow. Then KubeNode acted on late reports, and
        falseActions, limitViolations, breakerUnexplained and all times say nothing about it.
    """
    real = [fault for fault in ledger.faults if fault.kind.real]
    healed = ledger.healed
    unfinished = [fault for fault in real if fault.ended is None]
    behind_breaker = {n for e in observer.breakers.episodes if e.closed is None for n in e.nodes}
    return {
        "scenario": run.scenario,
        "nodes": run.nodes,
        "seed": run.seed,
        "speed": run.speed,
        "seconds": round(run.seconds, 1),
        "secondsBehind": round(run.behind, 1),
        "figuresMeaningful": not is_too_slow(run.behind, run.speed),
        "faultsInjected": len(real),
        "faults": by_kind(ledger.faults),
        "jobs": dict(sorted(Counter(phases).items())),
        "healed": len(healed),
        "booted": booted(ledger.faults),
        "faultsOpen": len(unfinished),
        "faultsOpenBehindBreaker": sum(fault.node in behind_breaker for fault in unfinished),
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


def is_too_slow(behind: float, speed: float) -> bool:
    """Return whether figures of a fleet with this delay in seconds are not meaningful."""
    return behind > max(BEHIND, REAL_BEHIND / speed)


def describe_slowness(behind: float) -> str:
    return f"machine too slow ({behind:.0f} s behind): figures are not meaningful"


def describe(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary as sentences for people."""
    yield (
        f"The demo ran for {result['seconds']:g} s with {result['nodes']} nodes (scenario"
        f" {result['scenario']}, seed {result['seed']}, speed {result['speed']:g})."
    )
    if (rollout := result.get("rollout")) is not None:
        yield _describe_rollout(rollout)
    if faults := result["faultsInjected"]:
        yield f"KubeNode healed {result['healed']} of {faults} faults by itself."
    if (median := result["timeToHeal"]["p50"]) is not None:
        yield f"Half of them were healed within {median:g} s, verification included."
    yield from _describe_open_faults(result)
    if opened := result["breakerOpened"]:
        yield f"Breakers opened: {opened}. Closed again: {result['breakerClosed']}."
    yield from _describe_judgement(result)
    yield "Add --json for all figures."


def _describe_open_faults(result: Mapping[str, Any]) -> Iterator[str]:
    if unfinished := result["faultsOpen"]:
        yield f"When the demo ended, {unfinished} faults had not ended yet."
    if blocked := result["faultsOpenBehindBreaker"]:
        yield (
            f"The nodes of {blocked} of them are in a zone with an open breaker: too many nodes"
            " failed there at once, so Kube Defender permits no further disruption."
        )


def _describe_rollout(rollout: Mapping[str, Any]) -> str:
    at = rollout["stoppedAtBatch"]
    state = f"stopped at batch {at}" if at is not None else f"is {rollout['phase']}"
    return (
        f"The rollout {state}: {rollout['machinesUpdated']} of {rollout['machines']} machines run"
        f" the new version, {rollout['machinesRolledBack']} were rolled back."
    )


def _describe_judgement(result: Mapping[str, Any]) -> Iterator[str]:
    if not result["figuresMeaningful"]:
        yield (
            f"The machine was too slow (up to {result['secondsBehind']:g} s behind), so the figures"
            " are not meaningful: run fewer nodes (--nodes 60) or a lower --speed."
        )
        return
    if result["scenario"] == UNJUDGED:
        yield "The observer does not know the faults that you brought, so it judged no act."
        return
    acts, false, above = (
        result[name] for name in ("actsJudged", "falseActions", "limitViolations")
    )
    yield (
        f"The observer judged {acts} acts: {false} without a fault of the node, {above} above a"
        " limit."
    )
    for finding in (*result.get("falseActionsSeen", ()), *result.get("limitViolationsSeen", ())):
        yield f"  {finding}"


def storms(ledger: Ledger, observer: Observer, until: float) -> dict[str, Any]:
    """Return what breakers did, by the policy's status.

    breakerOpened: openings that the observer's count explains.
    breakerClosed: how many of them closed again.
    breakerOpenSeconds: the time from opening to half-open, in total.
    permitsWhileOpen: permits granted in a scope while it was open, without reservedPermits.
    reservedPermits: permits granted in a reserved slot.
    halfOpenMostPermits: the most permits at once in a half-open scope.
    healedElsewhere: faults healed outside of a scope while its breaker was not closed.
    breakerUnexplained: openings that the count does not explain; absent if there are none.
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
    """Return all injected faults by kind. Unlike `faultsInjected` it includes noise."""
    return dict(sorted(Counter(fault.kind.value for fault in faults).items()))


def booted(faults: Iterable[InjectedFault]) -> Mapping[str, int]:
    """Return who ended the faults that only a boot ends: an agent, the provider or a person."""
    ended = (fault.ended_by.value for fault in faults if fault.kind.boots and fault.ended_by)
    return dict(sorted(Counter(ended).items()))


def findings(name: str, entries: list[ObserverFinding]) -> dict[str, list[str]]:
    """Return the first findings under `name`; empty if there are none."""
    if not entries:
        return {}
    return {name: [f"{f.at:.2f} {f.node}: {f.what}" for f in entries[:SHOWN]]}


def spread(values: Iterable[float]) -> dict[str, float | None]:
    """Return median and 99th percentile by nearest rank, in seconds; None without values."""
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p99": None}
    return {"p50": _rank(ordered, 0.50), "p99": _rank(ordered, 0.99)}


def _rank(ordered: list[float], share: float) -> float:
    index = min(len(ordered) - 1, max(0, -(-int(share * 100) * len(ordered) // 100) - 1))
    return round(ordered[index], 3)
