"""Order in which machines change: zones alternate; within a zone a hash of machine and revision
sorts.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from machine.componentset.member import RolloutMember


def in_turn(members: Iterable[RolloutMember], revision: str) -> list[RolloutMember]:
    """Return one member of each zone, then the next of each zone, and so on.

    Pass all members and filter the result. If members that have changed were left out, the order
    would begin with the first zone again.
    """
    all_members = list(members)
    turns = _turns(tuple((m.zone, m.uid, m.name) for m in all_members), revision)
    return [all_members[place] for place in turns]


@lru_cache(maxsize=32)
def _turns(members: tuple[tuple[str, str, str], ...], revision: str) -> tuple[int, ...]:
    """Return the positions of members in the order of change. Members are (zone, uid, name).

    The result is cached, because each reconcile of a rollout needs it and sorting 10,000 machines
    takes longer than all other decisions. The cache has one entry for each set that is rolled out
    at the same time; one for 10,000 machines takes 2 MB.
    """
    zones: dict[str, list[tuple[bytes, str, int]]] = {}
    for place, (zone, uid, name) in enumerate(members):
        zones.setdefault(zone, []).append((_dealt(uid, revision), name, place))
    ranked: list[tuple[int, str, int]] = []
    for zone, entries in zones.items():
        entries.sort()
        ranked += [(rank, zone, place) for rank, (_, _, place) in enumerate(entries)]
    ranked.sort()
    return tuple(place for _, _, place in ranked)


def _dealt(uid: str, revision: str) -> bytes:
    """Return the pseudo-random sort key of a machine: stable over restarts, different per
    revision.
    """
    return hashlib.blake2b(f"{uid}\0{revision}".encode(), digest_size=8).digest()


def forward(
    members: Iterable[RolloutMember], revision: str, all_: Iterable[RolloutMember], *, first: bool
) -> list[RolloutMember]:
    """Return `members` in their order among `all_`, canaries first.

    first: whether this is the first batch. It begins with a machine that never had the component,
        because a revision that works as an upgrade may fail as an installation (F36).
    """
    names = {m.name for m in members}
    ordered = [member for member in in_turn(all_, revision) if member.name in names]
    ordered.sort(key=lambda member: not member.canary)
    if first and (fresh := next((m for m in ordered if m.fresh), None)) is not None:
        ordered.remove(fresh)
        ordered.insert(0, fresh)
    return ordered


def newest_first(members: Iterable[RolloutMember], revision: str) -> list[RolloutMember]:
    """Return the members in the order in which they are rolled back: the last changed first."""
    backwards = in_turn(members, revision)[::-1]
    return sorted(backwards, key=lambda member: -member.batch)
