"""Decide what happens to the Machines of a set. Pure: target and observation in, plan out.

Each act is idempotent and may be lost. A decision is written on the Machine before it is carried
out, so that a restart continues with the same Machine and a change of mind is observed. The order:

- unmark: Machines that need not leave any more. If there are any, nothing else is done.
- choose: Machines that the spec names for removal. Until they are chosen, no other act begins.
- shrink: choose Machines to leave. While there are too many, none is replaced.
- replace: choose the unhealthy, then the outdated, within the limits; preserve a failed one.
- remove: chosen Machines that may go now. They get a permit and are deleted.
- create: missing Machines, within replicas plus surge.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.v1alpha1.machineset import ScaleInOrder
from machine.machineset.members import Crew, RemovalReason, SetMember, SetObservation, SetTarget

AT_ONCE = 10
"""Greatest number of Machines that are scaled in together."""


@dataclass(frozen=True, slots=True)
class SetPlan:
    """The decisions about a set. Names of members, and how many Machines to create.

    mark: the Machines to choose for removal, with the reason.
    preserve: the failed Machines to preserve, each with the time until which.
    """

    unmark: tuple[str, ...] = ()
    mark: dict[str, RemovalReason] = field(default_factory=dict)
    preserve: dict[str, datetime] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    create: int = 0


def step(wanted: SetTarget, observation: SetObservation) -> SetPlan:
    """Return the plan."""
    crew = Crew(observation.members)
    if back := tuple(_stay_after_all(wanted, crew)):
        return SetPlan(unmark=back)
    remove = () if observation.frozen else tuple(_may_go(wanted, crew))
    if named := _list_named(wanted, crew):
        return SetPlan(mark=dict.fromkeys(named, RemovalReason.SCALE_IN), remove=remove)
    create = _missing(wanted, observation, crew)
    if len(_list_counted(wanted, crew)) > wanted.replicas:
        return SetPlan(mark=_shrink(wanted, crew), remove=remove)
    if observation.frozen or crew.too_many_sick(wanted):
        return SetPlan(remove=remove, create=create)
    preserve, mark = _replace(wanted, observation, crew)
    return SetPlan(mark=mark, preserve=preserve, remove=remove, create=create)


# -- who leaves -----------------------------------------------------------------------------------


def _stay_after_all(wanted: SetTarget, crew: Crew) -> Iterator[str]:
    """Yield the chosen Machines that are to stay: protected, well again, or needed again."""
    stays = [m for m in crew.leaving if m.hands_off or not _still(wanted, crew, m)]
    stays += _well_and_outdated(crew)[wanted.surge :] if wanted.surge else []
    names = {m.name for m in stays}
    missing = wanted.replicas - len(_list_counted(wanted, crew)) - len(names - wanted.chosen)
    final = names | wanted.chosen
    fewer = [m for m in crew.leaving if m.leaving is RemovalReason.SCALE_IN and m.name not in final]
    if missing > 0:
        names |= {m.name for m in _in_order(wanted, fewer)[-missing:]}
    yield from sorted(names)


def _still(wanted: SetTarget, crew: Crew, member: SetMember) -> bool:
    """Return whether the reason for the choice still holds. An open job on the node takes
    precedence.

    After a restart the duration of each condition is counted anew. That alone makes no machine
    well.
    """
    if member.leaving is RemovalReason.SCALE_IN:
        return True
    if member.repair or crew.too_many_sick(wanted):
        return False
    if member.unhealthy or member.ailing:
        return True
    others = any(m.unhealthy for m in crew.staying)
    return member.outdated and wanted.replace_outdated and not others


def _well_and_outdated(crew: Crew) -> list[SetMember]:
    """Return the Machines that are to be replaced only because they are outdated, by name."""
    replaced = (
        m for m in crew.leaving if m.leaving is RemovalReason.REPLACE and not (m.sick or m.ailing)
    )
    return sorted(replaced, key=lambda m: m.name)


def _list_counted(wanted: SetTarget, crew: Crew) -> list[SetMember]:
    """Return the staying Machines that count for `replicas`: those that the spec does not name for
    removal. A person may keep hands off a named one.
    """
    return [m for m in crew.staying if m.name not in wanted.chosen]


def _list_named(wanted: SetTarget, crew: Crew) -> list[str]:
    """Return the Machines that the spec names for removal and that are not chosen yet."""
    return [m.name for m in crew.staying if m.name in wanted.chosen and not m.hands_off]


def _shrink(wanted: SetTarget, crew: Crew) -> dict[str, RemovalReason]:
    """Choose the Machines to scale in, at most AT_ONCE together."""
    room = AT_ONCE - sum(m.leaving is RemovalReason.SCALE_IN for m in crew.leaving)
    counted = _list_counted(wanted, crew)
    most = min(len(counted) - wanted.replicas, max(0, room))
    free = [m for m in counted if not m.hands_off]
    zones = Counter(m.zone for m in free)
    chosen: dict[str, RemovalReason] = {}
    while free and len(chosen) < most:
        # Each removal changes which zone is fullest.
        first = min(free, key=lambda m: _rank(wanted, m, zones))
        free.remove(first)
        zones[first.zone] -= 1
        chosen[first.name] = RemovalReason.SCALE_IN
    return chosen


def _in_order(wanted: SetTarget, members: list[SetMember]) -> list[SetMember]:
    """Return the members in the order in which they are removed."""
    zones = Counter(m.zone for m in members)
    return sorted(members, key=lambda m: _rank(wanted, m, zones))


def _rank(
    wanted: SetTarget, m: SetMember, zones: Mapping[str, int]
) -> tuple[bool, bool, bool, int, float, str]:
    """Return the sort key for removal.

    First those marked for deletion, then failed ones, those not ready, those in the fullest zone,
    then by age and by name.
    """
    age = m.created.timestamp() * (-1 if wanted.order is ScaleInOrder.NEWEST else 1)
    return not m.delete_first, not m.failed, m.ready, -zones[m.zone], age, m.name


def _replace(
    wanted: SetTarget, observation: SetObservation, crew: Crew
) -> tuple[dict[str, datetime], dict[str, RemovalReason]]:
    """Return the Machines to preserve, with the time until which, and those to replace.

    Both count against `maxReplacing`.
    """
    replacing = [m for m in crew.leaving if m.leaving is RemovalReason.REPLACE]
    remaining = wanted.max_replacing - len(replacing) - len(crew.deleting) - len(crew.coming)
    mark = {m.name: RemovalReason.REPLACE for m in _list_expired(wanted, observation, crew)}
    preserve: dict[str, datetime] = {}
    keep = wanted.preserve_max - sum(not m.deleting for m in crew.preserved)
    for member in _candidates(wanted, crew):
        if remaining <= 0:
            break
        remaining -= 1
        if member.failed and not member.gone and keep > 0:
            keep -= 1
            preserve[member.name] = observation.now + wanted.preserve_for
        else:
            mark[member.name] = RemovalReason.REPLACE
    return preserve, mark


def _candidates(wanted: SetTarget, crew: Crew) -> list[SetMember]:
    """Return unhealthy Machines without a repair; if all are well, the outdated ones."""
    free = [m for m in crew.staying if not (m.hands_off or m.repair)]
    unhealthy = sorted((m for m in free if m.unhealthy), key=lambda m: (not m.failed, m.name))
    if unhealthy or not wanted.replace_outdated or not _all_well(crew, wanted.replicas):
        return unhealthy
    outdated = _in_order(wanted, [m for m in free if m.outdated])
    if not wanted.surge:
        return outdated
    # Each needs an extra Machine first; those beyond the surge would wait for ever.
    return outdated[: max(0, wanted.surge - len(_well_and_outdated(crew)))]


def _all_well(crew: Crew, at_least: int) -> bool:
    """Return whether all staying members are available, and at least this many."""
    well = all(m.available and not m.sick for m in crew.staying)
    return well and len(crew.staying) >= at_least


def _list_expired(wanted: SetTarget, observation: SetObservation, crew: Crew) -> list[SetMember]:
    """Return preserved Machines whose time is over, and the oldest above the limit."""
    preserved = [m for m in crew.preserved if m.leaving is None and not (m.deleting or m.hands_off)]
    preserved.sort(key=lambda m: (m.preserved, m.name))
    more = max(0, len(preserved) - wanted.preserve_max)
    return [
        m
        for number, m in enumerate(preserved)
        if number < more or (m.preserved is not None and m.preserved <= observation.now)
    ]


# -- who may go now, and how many are missing -----------------------------------------------------


def _may_go(wanted: SetTarget, crew: Crew) -> Iterator[str]:
    """Yield the chosen Machines for which a permit may be requested."""
    for member in crew.preserved:
        if member.leaving is not None and not (member.deleting or member.hands_off):
            yield member.name
    for member in crew.leaving:
        if member.leaving is RemovalReason.SCALE_IN or _follows(wanted, crew, member):
            yield member.name


def _follows(wanted: SetTarget, crew: Crew, member: SetMember) -> bool:
    """Return whether a Machine to be replaced may go. With surge its successor must exist first.

    An unhealthy Machine may go although its successor is not healthy; one that works may not.
    """
    if crew.too_many_sick(wanted) or member.ailing:
        return False
    if not member.unhealthy:
        return _all_well(crew, wanted.replicas - (0 if wanted.surge else wanted.max_replacing))
    full = crew.total >= wanted.replicas + wanted.surge
    there = len(crew.staying) >= wanted.replicas or full
    return wanted.surge == 0 or (there and not crew.coming)


def _missing(wanted: SetTarget, observation: SetObservation, crew: Crew) -> int:
    """Return how many Machines to create."""
    if observation.blocked:
        return 0
    below = wanted.replicas - len(_list_counted(wanted, crew))
    under_the_top = wanted.replicas + wanted.surge - crew.total
    return max(0, min(below, under_the_top, observation.room))
