"""What sets want of machines now, for the one who writes to a machine on behalf of all of them.

Held in memory alone: each look of a set puts up all that it wants anew. Twelve sets that serve a
new machine cost one write, not twelve that refuse one another.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kubenode.api.v1alpha1.machinework import AssignedComponent


@dataclass(frozen=True, slots=True)
class SetIntent:
    """What one set wants of one machine.

    entry   to be written in place of what the set has there; None: nothing is to be written
    drop    what the set has there is to go
    leave   a permit may be given, or kept
    """

    entry: AssignedComponent | None = None
    drop: str = ""
    leave: bool = False


NOTHING = SetIntent()


def _alike(a: SetIntent | None, b: SetIntent | None) -> bool:
    """But for when it was planned, which each look plans anew."""
    if a is None or b is None or a.entry is None or b.entry is None:
        return a == b
    planned = {"assigned_at": b.entry.assigned_at}
    same = a.entry.model_copy(update=planned) == b.entry
    return same and (a.drop, a.leave) == (b.drop, b.leave)


@dataclass(slots=True)
class Assignments:
    """wake     called with the name of each machine of which something else is wanted
    waits    machine to set, and to why it has to wait, as the one who writes found out
    writing  machines whose last write the cache may not show yet, and for which sets it is, who may
             want nothing more meanwhile
    """

    wake: Callable[[str], None] = lambda machine: None
    waits: dict[str, tuple[str, str]] = field(default_factory=dict)
    writing: dict[str, frozenset[str]] = field(default_factory=dict)
    _wishes: dict[str, Mapping[str, SetIntent]] = field(default_factory=dict)

    def put(self, set_: str, wishes: Mapping[str, SetIntent]) -> None:
        """All that `set_` wants, by machine."""
        before = self._wishes.get(set_, {})
        self._wishes[set_] = wishes
        for machine in before.keys() | wishes.keys():
            if not _alike(before.get(machine), wishes.get(machine)):
                self.wake(machine)

    def narrow(self, set_: str, wishes: Mapping[str, SetIntent]) -> None:
        """Take back at once what `set_` does not want any more; what is new waits for `put`.

        Between a look and `put` lies a write: what was wanted before and was carried out meanwhile
        would come on top of what the look found room for.
        """
        before = self._wishes.get(set_)
        if before is not None:
            self._wishes[set_] = {m: w for m, w in before.items() if _alike(w, wishes.get(m))}

    def forget(self, set_: str) -> None:
        self.put(set_, {})
        del self._wishes[set_]

    def known(self, set_: str) -> bool:
        """Whether the set has looked since this process began."""
        return set_ in self._wishes

    def of(self, machine: str) -> dict[str, SetIntent]:
        """By set."""
        found = {}
        for set_, wishes in self._wishes.items():
            if (wish := wishes.get(machine)) is not None:
                found[set_] = wish
        return found

    def machines(self, set_: str) -> list[str]:
        """Of which the set wants something."""
        return list(self._wishes.get(set_, ()))

    def waiting(self, set_: str) -> list[tuple[str, str]]:
        """Its machines that wait for a permit, and why."""
        return [(m, why) for m, (of, why) in self.waits.items() if of == set_]
