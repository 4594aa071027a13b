"""Ledger of the permits that limits count. In memory, rebuilt from Permit objects.

Safety rules:

- A permit counts from its entry, before it is written, until its release is known to be written.
- While the outcome of a write is unknown, the permit counts as all that it may be: `also` holds
  the class before an upgrade, `unsure` the number of last grants that may not exist.
- Released permits stay until no rate counts them any more.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from defender.decision.permit_reader import UnreadablePermit
from kubenode.api.v1alpha1 import Disruption, Operation, Permit
from kubenode.api.v1alpha1.permit import Grant, Holder, PermitState, PermitStatus

JOB = "RemedyOperationJob"
COUNTED = frozenset({"node", "operation", "grants", "state", "scopes", "also", "unreadable"})
"""Fields of a permit on which limits depend."""
LONGEST_NODE_PART = 52
"""Length to which node names are cut, so that a permit's name fits a label value of 63 characters.
"""


@dataclass(slots=True)
class LedgerPermit:
    """One permit.

    grants: (class, time), oldest first.
    scopes: names of the scopes in which it was granted. None: unknown, so it counts in each.
    uid: "" until the Permit is known to exist.
    releasing: the holder released it, but that is not known to be written.
    looked_at: when its holder was last checked, None for never.
    late: it appeared without the knowledge of the replica in charge. It counts, but is not valid
        until
        it is judged again.
    displaced: pods that were on the node, by the UID of their controller. None: not recorded.
    take: number of the entry in the log that replicas share, 0 without one.
    unreadable: why the Permit does not fit this version, "" if it does. Then it counts for every
        operation and class, and no act may use it.
    """

    name: str
    node: str
    operation: Operation
    holder: Holder
    grants: list[tuple[Disruption, datetime]]
    expires_at: datetime
    state: PermitState = PermitState.GRANTED
    scopes: frozenset[str] | None = None
    policy_generation: int = 0
    renewed_at: datetime | None = None
    released_at: datetime | None = None
    uid: str = ""
    resource_version: str = ""
    unsure: int = 0
    also: frozenset[Disruption] = frozenset()
    releasing: bool = False
    status_written: bool = False
    looked_at: datetime | None = None
    late: bool = False
    displaced: dict[str, int] | None = None
    take: int = 0
    unreadable: str = ""

    changed: Callable[[str], None] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """Callback of its ledger, called when a field on which limits depend changes."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the field and report changes on which limits depend, whoever makes them."""
        object.__setattr__(self, name, value)
        if name in COUNTED and (changed := getattr(self, "changed", None)) is not None:
            changed(self.name)

    @property
    def class_(self) -> Disruption:
        return self.grants[-1][0]

    @property
    def granted_at(self) -> datetime:
        return self.grants[0][1]

    @property
    def open(self) -> bool:
        return self.state is not PermitState.RELEASED

    def counts_as(self, classes: frozenset[Disruption]) -> bool:
        known = self.class_ in classes or not classes.isdisjoint(self.also)
        return known or bool(self.unreadable)

    def same_holder(self, holder: Holder) -> bool:
        return (self.holder.kind, self.holder.uid) == (holder.kind, holder.uid)


def permit_name(node: str, holder: Holder, previous: str) -> str:
    """Return the name of the permit, the same for every request with these arguments.

    previous: the holder's latest released permit on the node, "" if there is none. A request after
        a
        release gets a new name.
    """
    cause = "\0".join((node, holder.kind, holder.uid, previous))
    cut = node[:LONGEST_NODE_PART].rstrip("-.")
    return f"{cut}-{sha256(cause.encode()).hexdigest()[:10]}"


def load_permit(permit: Permit, life_seconds: float) -> LedgerPermit:
    """Return the permit from its object. One without status was granted, but not announced yet.

    Raises ValueError if it has neither grants nor a creation time.
    """
    spec, status, meta = permit.spec, permit.status, permit.metadata
    created = meta.creation_timestamp
    unreadable = permit.why if isinstance(permit, UnreadablePermit) else ""
    is_open = status.state is not PermitState.RELEASED
    grants = [(grant.class_, grant.at) for grant in spec.grants]
    if not grants:
        at = status.granted_at or created
        if at is None:
            raise ValueError(f"permit {meta.name}: neither grants nor creationTimestamp")
        grants = [(spec.class_, at)]
    return LedgerPermit(
        name=meta.name,
        node=spec.node_name,
        operation=spec.operation,
        holder=spec.holder,
        grants=grants,
        expires_at=status.expires_at or grants[-1][1] + timedelta(seconds=life_seconds),
        state=status.state or PermitState.GRANTED,
        scopes=frozenset(status.scopes) if status.scopes and not (unreadable and is_open) else None,
        policy_generation=spec.policy_generation,
        renewed_at=status.renewed_at,
        released_at=status.released_at,
        uid=meta.uid,
        resource_version=meta.resource_version,
        displaced=displaced_in(status),
        status_written=status.state is not None,
        unreadable=unreadable,
    )


def displaced_in(status: PermitStatus) -> dict[str, int] | None:
    if status.displaced is None:
        return None
    return {each.controller: each.pods for each in status.displaced}


def grants_of(permit: LedgerPermit) -> list[Grant]:
    return [Grant(class_=class_, at=at) for class_, at in permit.grants]


@dataclass(slots=True)
class PermitLedger:
    """Permits by name and by node."""

    _all: dict[str, LedgerPermit] = field(default_factory=dict)
    _open: dict[str, LedgerPermit] = field(default_factory=dict)
    _by_node: dict[str, dict[str, LedgerPermit]] = field(default_factory=dict)
    on_changed: Callable[[str], None] = lambda name: None
    """Called with the name of each permit whose counts change."""
    on_freed: list[Callable[[LedgerPermit], None]] = field(default_factory=list)
    """Called with each permit that no longer counts, or counts for less."""

    def enter(self, permit: LedgerPermit) -> None:
        if permit.name in self._all:
            raise ValueError(f"permit {permit.name} is in the ledger already")
        self._all[permit.name] = permit
        self._by_node.setdefault(permit.node, {})[permit.name] = permit
        if permit.open:
            self._open[permit.name] = permit
        permit.changed = self._changed
        self._changed(permit.name)

    def forget(self, name: str) -> None:
        """Remove the permit."""
        permit = self._all.pop(name, None)
        if permit is None:
            return
        self._open.pop(name, None)
        on_node = self._by_node[permit.node]
        del on_node[name]
        if not on_node:
            del self._by_node[permit.node]
        permit.changed = None
        self._changed(name)
        self._freed(permit)

    def grant(self, permit: LedgerPermit, class_: Disruption, at: datetime) -> None:
        """Add a stronger class to a permit."""
        permit.grants = [*permit.grants, (class_, at)]

    def ungrant(self, permit: LedgerPermit) -> None:
        """Remove the last grant, which is known not to have been written."""
        permit.grants = permit.grants[:-1]
        self._freed(permit)

    def replace_grants(
        self, permit: LedgerPermit, grants: list[tuple[Disruption, datetime]]
    ) -> None:
        permit.grants = list(grants)

    def release(self, permit: LedgerPermit, at: datetime) -> None:
        permit.state, permit.released_at = PermitState.RELEASED, at
        permit.unsure, permit.also, permit.releasing = 0, frozenset(), False
        self._open.pop(permit.name, None)
        self._freed(permit)

    def _changed(self, name: str) -> None:
        self.on_changed(name)

    def _freed(self, permit: LedgerPermit) -> None:
        for tell in self.on_freed:
            tell(permit)

    # -- reading ------------------------------------------------------------------------------

    def get(self, name: str) -> LedgerPermit | None:
        return self._all.get(name)

    def __iter__(self) -> Iterator[LedgerPermit]:
        return iter(list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def open(self) -> list[LedgerPermit]:
        return list(self._open.values())

    def on_node(self, node: str) -> list[LedgerPermit]:
        """Return all permits on the node, including released ones."""
        return list(self._by_node.get(node, {}).values())

    def open_on(self, node: str) -> list[LedgerPermit]:
        return [permit for permit in self.on_node(node) if permit.open]

    def open_of(self, holder: Holder, node: str) -> LedgerPermit | None:
        return next((h for h in self.open_on(node) if h.same_holder(holder)), None)

    def next_name(self, holder: Holder, node: str) -> str:
        mine = [h for h in self.on_node(node) if h.same_holder(holder) and not h.open]
        latest = max(mine, key=lambda h: (h.granted_at, h.name), default=None)
        name = permit_name(node, holder, latest.name if latest else "")
        while name in self._all:  # clocks may differ, so the latest by time may not be the newest
            name = permit_name(node, holder, name)
        return name
