"""Forecast a rollout in which nothing fails, by running the real steps on simulated members. Pure.

Repairs end, windows open and stops are lifted at once; bake times and inspections are left out. The
limits on machines that are down are left out as well, because they slow a batch without changing
its members.
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

MOST_STEPS = 512
"""Greatest number of steps to simulate."""
_HELPED = IN_FLIGHT | {MemberState.DRIFTED, MemberState.UNWELL}
"""States that a change or correction without failure ends in success."""


@dataclass(frozen=True, slots=True)
class ForecastStage:
    """A batch of the forecast.

    index: the number of the batch, 0 for machines that join or return.
    machines: names, in the order in which they start.
    """

    index: int
    revision: str
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of a rollout.

    now: what the operator would do now, with the present obstacles.
    phase: the phase in which the rollout would end.
    stages: in the order in which they start.
    stay: members that are not at the new revision and get no assignment.
    end: the final message: why the rollout ends there.
    whole: False if there are more stages than could be simulated.
    """

    now: RolloutPlan
    phase: RolloutPhase | None
    stages: tuple[ForecastStage, ...]
    stay: tuple[str, ...]
    end: str
    whole: bool


def forecast(
    before: RolloutState, strategy: UpdateStrategy, observation: RolloutObservation
) -> Forecast:
    """Return the forecast of the rollout.

    strategy: the strategy of the spec, with defaults filled in.
    """
    _, now = step(before, strategy, observation)
    members = {m.name: _unhindered(m) for m in observation.members}
    easy = _eased(strategy)
    rollout, plan, whole = replace(before, stop=None), now, False
    stages: dict[tuple[int, str], dict[str, None]] = {}
    for _ in range(MOST_STEPS):
        all_ = tuple(members.values())
        after, plan = step(rollout, easy, _unhampered(observation, all_))
        for move in plan.moves:
            stages.setdefault((move.batch, move.revision), {})[move.machine] = None
            members[move.machine] = _moved(members[move.machine], move)
        if after == rollout and not plan.moves:
            whole = True
            break
        rollout = after
    given = {name for names in stages.values() for name in names}
    stay = (n for n, m in members.items() if n not in given and m.revision != rollout.update)
    return Forecast(
        now,
        rollout.phase,
        tuple(
            ForecastStage(index, revision, tuple(names))
            for (index, revision), names in stages.items()
        ),
        tuple(sorted(stay)),
        plan.paused.message if plan.paused is not None else plan.progressing[1].message,
        whole,
    )


def ordered(stages: tuple[ForecastStage, ...]) -> Iterator[tuple[ForecastStage, str]]:
    """Yield each machine with its stage, in order."""
    for stage in stages:
        for name in stage.machines:
            yield stage, name


def _eased(strategy: UpdateStrategy) -> UpdateStrategy:
    """Return the strategy without disruption limits, bake time, inspection and download ahead."""
    return strategy.model_copy(
        update={
            "max_unavailable": "100%",
            "spread": [],
            "pre_stage": False,
            "bake_time": timedelta(0),
            "inspection": Inspection(),
        }
    )


def _unhampered(
    observation: RolloutObservation, members: tuple[RolloutMember, ...]
) -> RolloutObservation:
    """Return the observation with these members and without obstacles."""
    return replace(
        observation,
        members=members,
        problem=None,
        paused=False,
        frozen=False,
        meltdown="",
        window=True,
        waits=(),
    )


def _unhindered(member: RolloutMember) -> RolloutMember:
    """Return the member with its repair ended and its change completed.

    A member that does not answer completes no change.
    """
    if not member.answers:
        return replace(member, open_job="")
    well = member.standing in _HELPED
    return replace(
        member,
        open_job="",
        available=True,
        broken=member.broken and not well,
        standing=MemberState.SUCCEEDED if well else member.standing,
    )


def _moved(member: RolloutMember, move: AssignmentMove) -> RolloutMember:
    """Return the member after a move. One that does not answer gets the assignment but never
    applies it.
    """
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
