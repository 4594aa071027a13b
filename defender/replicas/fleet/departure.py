"""A person's request to remove a cluster from the fleet, and its processing.

It is an annotation of the Lease that stores what is known of the fleet. The leader processes it
once, and only for a cluster that is silent or that Redis does not know.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from defender.decision.fleet_view import FleetGroup
from defender.replicas.fleet import wire

ANNOTATION = "kubenode.io/fleet-forget"


class Departure(msgspec.Struct, frozen=True):
    """The request. `cluster` is the name in the fleet; `by` and `why` are the person's."""

    cluster: str
    by: str
    why: str

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome. `refused` is why the cluster was not removed, "" if it was."""

    departure: Departure
    refused: str = ""


Tell = Callable[[Answered], None]
_read = msgspec.json.Decoder(Departure).decode


def read_departure(text: str) -> Departure | None:
    """Return the request, None for none. Raises ValueError for an unreadable one."""
    return _read(text) if text else None


def objection(departure: Departure, group: FleetGroup) -> str:
    """Return why the group must not remove the cluster, "" if it may."""
    name = departure.cluster
    if name == group.me:
        return "a cluster does not forget itself"
    if name in group.rows and name not in group.silent:
        return f"cluster {name} is heard: stop it first, and wait until it is silent"
    return ""


def is_remembered(name: str, group: FleetGroup) -> bool:
    """Return whether the group knows the cluster."""
    return name in group.roster() or name in group.known.silent


def erasure(departure: Departure, group: FleetGroup) -> dict[str, str]:
    """Return the entries for the group's log that end all claims of the cluster."""
    name = departure.cluster
    entries = {wire.share_name(of, permit): "" for of, permit in group.shares if of == name}
    if name in group.rows:
        entries[wire.row_name(name)] = ""
    return entries | {wire.forgotten_name(name): departure.text}
