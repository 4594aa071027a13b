"""Desired assignments of all sets, held in memory for the carrier.

Each reconcile of a set publishes all of its intents anew. The carrier combines the intents of all
sets for a machine in one write. Twelve sets that each wrote to a new machine would conflict.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kubenode.api.v1alpha1.machinework import AssignedComponent


@dataclass(frozen=True, slots=True)
class SetIntent:
    """What one set wants of one machine.

    entry: the assignment to write in place of the set's present one. None: write nothing.
    drop: the name of the component whose assignment is to be removed, "" for none.
    leave: a permit may be granted or kept.
    """

    entry: AssignedComponent | None = None
    drop: str = ""
    leave: bool = False


NOTHING = SetIntent()


def _alike(a: SetIntent | None, b: SetIntent | None) -> bool:
    """Return whether two intents are equal, apart from `assigned_at`, which each reconcile sets
    anew.
    """
    if a is None or b is None or a.entry is None or b.entry is None:
        return a == b
    planned = {"assigned_at": b.entry.assigned_at}
    same = a.entry.model_copy(update=planned) == b.entry
    return same and (a.drop, a.leave) == (b.drop, b.leave)


@dataclass(slots=True)
class Assignments:
    """Intents of all sets, and what the carrier reports back.

    wake: called with the name of each machine whose intents have changed.
    waits: by machine, the set for which it waits for a permit, and why.
    writing: by machine with a write that the cache may not show yet, the sets whose assignment it
        changes. Such a set may have withdrawn its intent meanwhile.
    """

    wake: Callable[[str], None] = lambda machine: None
    waits: dict[str, tuple[str, str]] = field(default_factory=dict)
    writing: dict[str, frozenset[str]] = field(default_factory=dict)
    _wishes: dict[str, Mapping[str, SetIntent]] = field(default_factory=dict)

    def put(self, set_: str, wishes: Mapping[str, SetIntent]) -> None:
        """Replace the intents of a set, by machine, and wake the machines for which they
        changed.
        """
        before = self._wishes.get(set_, {})
        self._wishes[set_] = wishes
        for machine in before.keys() | wishes.keys():
            if not _alike(before.get(machine), wishes.get(machine)):
                self.wake(machine)

    def narrow(self, set_: str, wishes: Mapping[str, SetIntent]) -> None:
        """Withdraw intents that the set no longer has. New ones wait for `put`.

        The status is written between the observation and `put`. An old intent that is carried out
        in that time could exceed the disruption budget that the observation left.
        """
        before = self._wishes.get(set_)
        if before is not None:
            self._wishes[set_] = {m: w for m, w in before.items() if _alike(w, wishes.get(m))}

    def forget(self, set_: str) -> None:
        """Withdraw all intents of a set that is gone."""
        self.put(set_, {})
        del self._wishes[set_]

    def known(self, set_: str) -> bool:
        """Return whether the set has been reconciled since this process began."""
        return set_ in self._wishes

    def of(self, machine: str) -> dict[str, SetIntent]:
        """Return the intents for a machine, by set."""
        intents = {}
        for set_, wishes in self._wishes.items():
            if (wish := wishes.get(machine)) is not None:
                intents[set_] = wish
        return intents

    def machines(self, set_: str) -> list[str]:
        """Return the machines for which the set has an intent."""
        return list(self._wishes.get(set_, ()))

    def waiting(self, set_: str) -> list[tuple[str, str]]:
        """Return the machines of the set that wait for a permit, each with the reason."""
        return [(m, why) for m, (of, why) in self.waits.items() if of == set_]
