"""A person's word that a cluster has left the fleet, and what Kube Defender makes of it.

It is an annotation of the Lease that keeps what is known of the fleet. The leader takes it from
there, once, and only for a cluster that is silent or that Redis knows nothing of.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from defender.fleet import wire
from defender.fleet.view import FleetGroup

ANNOTATION = "kubenode.io/fleet-forget"


class Departure(msgspec.Struct, frozen=True):
    """cluster  its name in the fleet; `by` and `why` are a person's"""

    cluster: str
    by: str
    why: str

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True, slots=True)
class Answered:
    """refused  why the cluster was not forgotten, "" if it was"""

    departure: Departure
    refused: str = ""


Tell = Callable[[Answered], None]
_read = msgspec.json.Decoder(Departure).decode


def read_departure(text: str) -> Departure | None:
    """None for no word. Raises ValueError for one that cannot be read."""
    return _read(text) if text else None


def objection(departure: Departure, group: FleetGroup) -> str:
    """Why a group does not forget the cluster, "" if it may."""
    name = departure.cluster
    if name == group.me:
        return "a cluster does not forget itself"
    if name in group.rows and name not in group.silent:
        return f"cluster {name} is heard: stop it first, and wait until it is silent"
    return ""


def is_remembered(name: str, group: FleetGroup) -> bool:
    return name in group.roster() or name in group.known.silent


def erasure(departure: Departure, group: FleetGroup) -> dict[str, str]:
    """What the log of a group must be told so that the cluster claims nothing any more."""
    name = departure.cluster
    entries = {wire.share_name(of, permit): "" for of, permit in group.shares if of == name}
    if name in group.rows:
        entries[wire.row_name(name)] = ""
    return entries | {wire.forgotten_name(name): departure.text}
