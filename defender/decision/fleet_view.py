"""What this cluster knows of the others that share a limit. Pure.

Each cluster claims the greater of what it holds and what it has reserved. A permit that is taken
together with the others keeps the sum of all claims within the limit. So a cluster that is cut off
may use its own reserve, and the sum never exceeds the limit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.v1alpha1 import Disruption, Operation

Classes = frozenset[Disruption]
Operations = frozenset[Operation]


def key_of(classes: Classes) -> str:
    """Return the name of the reserve for permits of these classes."""
    return ",".join(sorted(classes))


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """What one cluster reports.

    members: nodes of the group.
    healthy: members that are healthy without an open permit.
    reserves: permits that it may hold without asking, by key_of their classes.
    roster: clusters that it remembers, whatever happens to Redis.
    counted: its permits that `healthy` already leaves out.
    beat: grows while the cluster is alive, None for a version without beats.
    silent: clusters whose last claims it uses if Redis has lost them.
    """

    members: int = 0
    healthy: int = 0
    reserves: Mapping[str, int] = field(default_factory=dict)
    roster: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    beat: int | None = None
    silent: frozenset[str] = frozenset()

    def reserve(self, classes: Classes) -> int:
        """Return what it may hold of any of these classes, by all its reserves."""
        named = {each.value for each in classes}
        return sum(n for key, n in self.reserves.items() if not named.isdisjoint(key.split(",")))


@dataclass(frozen=True, slots=True)
class Share:
    """One permit in the group.

    healthy: it takes a healthy node away.
    every: it counts for every operation and class, because its Permit is unreadable.
    """

    classes: Classes
    operation: Operation
    grants: tuple[tuple[Disruption, datetime], ...] = ()
    open: bool = True
    healthy: bool = False
    every: bool = False

    def counts(self, classes: Classes, operations: Operations) -> bool:
        known = self.operation in operations and not self.classes.isdisjoint(classes)
        return self.open and (known or self.every)


@dataclass(frozen=True, slots=True)
class LastClaims:
    """The claims of a cluster when it became silent.

    It takes nothing more before all that store these claims have seen it again. Cut off, it may use
    its reserve, which is included.
    """

    row: ClusterRow
    shares: Mapping[str, Share] = field(default_factory=dict)


@dataclass(slots=True)
class StoredFleet:
    """What is stored on the API server and stays valid if Redis is away or has lost entries.

    reserves: reserves of this cluster, by key_of their classes.
    roster: the known clusters.
    total: members of all clusters, when all were last heard.
    silent: by cluster, its claims when it became silent.
    forgotten: clusters that a person has removed.
    """

    reserves: dict[str, int] = field(default_factory=dict)
    roster: frozenset[str] = frozenset()
    total: int = 0
    silent: dict[str, LastClaims] = field(default_factory=dict)
    forgotten: frozenset[str] = frozenset()


@dataclass(slots=True)
class FleetGroup:
    """One group. `me` is this cluster. online: takes of others are seen, and ours by them.

    rows: by cluster, what it reports.
    silent: clusters whose beat has stopped.
    forgotten: clusters that a person has removed, according to the log.
    """

    me: str
    rows: dict[str, ClusterRow] = field(default_factory=dict)
    shares: dict[tuple[str, str], Share] = field(default_factory=dict)
    """By cluster and permit."""
    known: StoredFleet = field(default_factory=StoredFleet)
    online: bool = False
    why: str = "the fleet's store was not asked yet"
    silent: frozenset[str] = frozenset()
    forgotten: frozenset[str] = frozenset()

    @property
    def gone(self) -> frozenset[str]:
        """Clusters that a person has removed and that have not come back."""
        return (self.forgotten | self.known.forgotten) - self.rows.keys() - {self.me}

    def last_claims(self) -> dict[str, LastClaims]:
        """Return the claims of silent clusters that Redis has lost."""
        known = self.known.silent.items()
        return {n: last for n, last in known if n not in self.rows and n not in self.gone}

    def roster(self) -> frozenset[str]:
        """Return all clusters that some cluster remembers, except removed ones."""
        wanted = {self.me} | self.known.roster | self.rows.keys()
        for row in self.rows.values():
            wanted |= row.roster
        return frozenset(wanted - self.gone)

    def missing(self) -> list[str]:
        """Return clusters of which nothing is known, although some cluster remembers them."""
        return sorted(self.roster() - self.rows.keys() - self.last_claims().keys())

    def strangers(self) -> list[str]:
        """Return clusters that do not remember this one, or use its claims from before it was
        silent.
        """
        others = {name: row for name, row in self.rows.items() if name != self.me}
        return sorted(
            n for n, r in others.items() if self.me not in r.roster or self.me in r.silent
        )

    def doubters(self) -> list[str]:
        """Return clusters that use the claims of this one from before it was silent."""
        return sorted(name for name, row in self.rows.items() if self.me in row.silent)

    @property
    def total(self) -> int:
        """Members of all clusters, including silent ones."""
        last = sum(each.row.members for each in self.last_claims().values())
        return last + sum(row.members for row in self.rows.values())

    @property
    def total_active(self) -> int:
        """Members of the clusters that are not silent."""
        return sum(row.members for name, row in self.rows.items() if name not in self.silent)

    def used(self, cluster: str, classes: Classes, operations: Operations) -> int:
        return sum(
            share.counts(classes, operations)
            for (of, _), share in self.shares.items()
            if of == cluster
        )

    def claimed_by_others(self, classes: Classes, operations: Operations) -> int:
        present = sum(
            max(self.used(name, classes, operations), row.reserve(classes))
            for name, row in self.rows.items()
            if name != self.me
        )
        return present + sum(
            max(
                sum(share.counts(classes, operations) for share in last.shares.values()),
                last.row.reserve(classes),
            )
            for last in self.last_claims().values()
        )

    def healthy(self) -> int:
        """Return the healthy nodes, less those taken since their cluster counted them.

        Silent clusters are left out, also in `total_heard`.
        """
        active = {name: row for name, row in self.rows.items() if name not in self.silent}
        taken = sum(
            share.open and share.healthy and name not in active[cluster].counted
            for (cluster, name), share in self.shares.items()
            if cluster in active
        )
        return sum(row.healthy for row in active.values()) - taken

    def granted(self, classes: Classes, operations: Operations) -> Iterator[datetime]:
        """Yield the times of all grants, oldest first."""
        last = [share for each in self.last_claims().values() for share in each.shares.values()]
        yield from sorted(
            at
            for share in (*self.shares.values(), *last)
            if share.every or share.operation in operations
            for class_, at in share.grants
            if share.every or class_ in classes
        )


@dataclass(slots=True)
class FleetView:
    """All groups.

    alone: returns whether this process is the only one of its cluster that answers. Only then may
        it
        use the cluster's reserves.
    """

    alone: Callable[[], bool]
    groups: dict[str, FleetGroup] = field(default_factory=dict)
