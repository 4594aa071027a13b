"""In which order machines are changed: zones in turn, then by a hash that a revision deals."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from machine.componentset.member import Member


def dealt(member: Member, revision: str) -> bytes:
    """Where chance puts it; the same after a restart, another for another revision."""
    return _dealt(member.uid, revision)


@lru_cache(maxsize=65536)
def _dealt(uid: str, revision: str) -> bytes:
    return hashlib.blake2b(f"{uid}\0{revision}".encode(), digest_size=8).digest()


def in_turn(members: Iterable[Member], revision: str) -> list[Member]:
    """One of each zone, then the next of each. Ask for all of which some were taken already, or
    the turn begins with the first zone again."""
    zones: dict[str, list[tuple[bytes, str, Member]]] = {}
    for member in members:
        entry = (dealt(member, revision), member.name, member)
        zones.setdefault(member.zone, []).append(entry)
    found = []
    for zone, entries in zones.items():
        entries.sort(key=lambda entry: entry[:2])
        found += [(rank, zone, member) for rank, (_, _, member) in enumerate(entries)]
    found.sort(key=lambda entry: entry[:2])
    return [member for _, _, member in found]


def forward(
    members: Iterable[Member], revision: str, all_: Iterable[Member], *, first: bool
) -> list[Member]:
    """The `members`, each in its turn among `all_`, canaries before others. The first batch begins
    with a machine that never had the component: what works as an upgrade may not work as an
    installation (F36)."""
    names, turns = {m.name for m in members}, in_turn(all_, revision)
    turns.sort(key=lambda member: not member.canary)
    found = [member for member in turns if member.name in names]
    if first and (fresh := next((m for m in found if m.fresh), None)) is not None:
        found.remove(fresh)
        found.insert(0, fresh)
    return found


def newest_first(members: Iterable[Member], revision: str) -> list[Member]:
    """Back: last changed, first returned."""
    backwards = in_turn(members, revision)[::-1]
    return sorted(backwards, key=lambda member: -member.batch)
