"""How a rollout would go on if nothing fails: the real steps, over machines that always succeed.

Repairs end, windows open, stops are lifted, and no batch bakes or is inspected. How many may be
down at once slows a batch and puts nobody else into it, so it is left out. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from kubenode.api.v1alpha1.machinecomponentset import Inspection, RolloutPhase, UpdateStrategy
from machine.componentset.member import IN_FLIGHT, MemberState, RolloutMember
from machine.componentset.rollout import (
    AssignmentMove,
    RolloutObservation,
    RolloutPlan,
    RolloutState,
)
from machine.componentset.step import step

LOOKS = 512
_HELPED = IN_FLIGHT | {MemberState.DRIFTED, MemberState.UNWELL}


@dataclass(frozen=True, slots=True)
class ForecastStage:
    """index     of the batch; 0: of none, they join or return
    machines  names, in the order in which they start
    """

    index: int
    revision: str
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """now     what the operator would do at this moment, with what stands in its way
    phase   in which it would end
    stages  in the order in which they start
    stay    members that are given nothing, and are not at the revision that is asked for
    end     the last word: why it ends where it does
    whole   False: there are more stages than are looked at
    """

    now: RolloutPlan
    phase: RolloutPhase | None
    stages: tuple[ForecastStage, ...]
    stay: tuple[str, ...]
    end: str
    whole: bool


def forecast(before: RolloutState, strategy: UpdateStrategy, seen: RolloutObservation) -> Forecast:
    """strategy  as the spec has it, with its defaults"""
    _, now = step(before, strategy, seen)
    members = {m.name: _unhindered(m) for m in seen.members}
    easy = _eased(strategy)
    rollout, plan, whole = replace(before, stop=None), now, False
    found: dict[tuple[int, str], dict[str, None]] = {}
    for _ in range(LOOKS):
        all_ = tuple(members.values())
        after, plan = step(rollout, easy, _unhampered(seen, all_))
        for move in plan.moves:
            found.setdefault((move.batch, move.revision), {})[move.machine] = None
            members[move.machine] = _moved(members[move.machine], move)
        if after == rollout and not plan.moves:
            whole = True
            break
        rollout = after
    given = {name for names in found.values() for name in names}
    stay = (n for n, m in members.items() if n not in given and m.revision != rollout.update)
    return Forecast(
        now,
        rollout.phase,
        tuple(
            ForecastStage(index, revision, tuple(names))
            for (index, revision), names in found.items()
        ),
        tuple(sorted(stay)),
        plan.paused.message if plan.paused is not None else plan.progressing[1].message,
        whole,
    )


def ordered(stages: tuple[ForecastStage, ...]) -> Iterator[tuple[ForecastStage, str]]:
    """Each machine with its stage."""
    for stage in stages:
        for name in stage.machines:
            yield stage, name


def _eased(strategy: UpdateStrategy) -> UpdateStrategy:
    return strategy.model_copy(
        update={
            "max_unavailable": "100%",
            "spread": [],
            "pre_stage": False,
            "bake_time": timedelta(0),
            "inspection": Inspection(),
        }
    )


def _unhampered(seen: RolloutObservation, members: tuple[RolloutMember, ...]) -> RolloutObservation:
    return replace(
        seen,
        members=members,
        problem=None,
        paused=False,
        frozen=False,
        meltdown="",
        window=True,
        waits=(),
    )


def _unhindered(member: RolloutMember) -> RolloutMember:
    """Whose repair is over and whose change is done, if anybody is there to do it."""
    if not member.answers:
        return replace(member, held="")
    well = member.standing in _HELPED
    return replace(
        member,
        held="",
        available=True,
        broken=member.broken and not well,
        standing=MemberState.SUCCEEDED if well else member.standing,
    )


def _moved(member: RolloutMember, move: AssignmentMove) -> RolloutMember:
    """One that does not answer has it assigned and does not do it."""
    return replace(
        member,
        revision=move.revision,
        batch=move.batch,
        attempt=move.attempt,
        stale=False,
        broken=False,
        newcomer=False,
        standing=MemberState.SUCCEEDED if member.answers else MemberState.PENDING,
        since=None,
    )
