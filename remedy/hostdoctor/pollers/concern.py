"""What of a cloud's whole account is about this cluster. Pure.

An account holds machines of others: their events would be kept as unresolved, and be most of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from remedy.hostdoctor.reported import Reported, Told

Ours = Callable[[Reported], bool]


@dataclass(frozen=True, slots=True)
class Concerning:
    told: Told
    foreign: int


def concerning(told: Told, ours: Ours) -> Concerning:
    kept = tuple(event for event in told.events if ours(event))
    return Concerning(replace(told, events=kept), len(told.events) - len(kept))
