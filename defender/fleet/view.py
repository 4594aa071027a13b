"""What this cluster knows of the others that share a limit with it. Pure.

Each cluster claims the greater of what it holds and what it has reserved. Whoever takes a permit
together with the others sees to it that all claims together stay within the limit; so a cluster
that is cut off may go on up to its own reserve, and the sum passes the limit in no case.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.v1alpha1 import Disruption, Operation

Classes = frozenset[Disruption]
Operations = frozenset[Operation]


def key_of(classes: Classes) -> str:
    """The name of a reserve: permits of these classes."""
    return ",".join(sorted(classes))


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster.

    members, healthy  nodes of the group, and those that are healthy without an open permit
    reserves          permits that it may hold without asking, by key_of their classes
    roster            clusters that it will not forget, whatever becomes of Redis
    counted           its permits that `healthy` leaves out already
    beat              grows while the cluster is heard; None: of a version that tells none
    silent            clusters whose last claims it keeps, to go by when Redis has forgotten them
    """

    members: int = 0
    healthy: int = 0
    reserves: Mapping[str, int] = field(default_factory=dict)
    roster: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    beat: int | None = None
    silent: frozenset[str] = frozenset()

    def reserve(self, classes: Classes) -> int:
        """What it may hold of any of these classes, by all its reserves."""
        named = {each.value for each in classes}
        return sum(n for key, n in self.reserves.items() if not named.isdisjoint(key.split(",")))


@dataclass(frozen=True, slots=True)
class Share:
    """One permit in the group. `healthy`: it takes a healthy node away. `every`: it counts as
    every operation and class, for its Permit cannot be read.
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
    """What a cluster claimed when it fell silent. It takes nothing more before all who keep this
    have seen it again; cut off it goes up to its reserve, which is in it.
    """

    row: ClusterRow
    shares: Mapping[str, Share] = field(default_factory=dict)


@dataclass(slots=True)
class StoredFleet:
    """What is kept on the API server: it holds also when Redis is away, or has forgotten.

    total      members of all clusters, as of the last time all were heard of
    silent     by cluster, what it claimed when it fell silent
    forgotten  clusters that a person says are gone
    """

    reserves: dict[str, int] = field(default_factory=dict)
    roster: frozenset[str] = frozenset()
    total: int = 0
    silent: dict[str, LastClaims] = field(default_factory=dict)
    forgotten: frozenset[str] = frozenset()


@dataclass(slots=True)
class FleetGroup:
    """`me` is this cluster. online: what others take is seen, and ours is by them.

    silent     clusters whose beat stands still
    forgotten  clusters that a person says are gone, as the log tells
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
        """Clusters that a person says are gone, and that have not come back."""
        return (self.forgotten | self.known.forgotten) - self.rows.keys() - {self.me}

    def last_claims(self) -> dict[str, LastClaims]:
        """Of silent clusters that Redis has forgotten."""
        known = self.known.silent.items()
        return {n: last for n, last in known if n not in self.rows and n not in self.gone}

    def roster(self) -> frozenset[str]:
        """Every cluster that some cluster remembers, less those that are gone."""
        wanted = {self.me} | self.known.roster | self.rows.keys()
        for row in self.rows.values():
            wanted |= row.roster
        return frozenset(wanted - self.gone)

    def missing(self) -> list[str]:
        """Clusters of which nothing is known, though some cluster remembers them."""
        return sorted(self.roster() - self.rows.keys() - self.last_claims().keys())

    def strangers(self) -> list[str]:
        """Clusters that would forget this one, or go by what it claimed before it fell silent."""
        others = {name: row for name, row in self.rows.items() if name != self.me}
        return sorted(
            n for n, r in others.items() if self.me not in r.roster or self.me in r.silent
        )

    def doubters(self) -> list[str]:
        """Clusters that go by what this one claimed before it fell silent."""
        return sorted(name for name, row in self.rows.items() if self.me in row.silent)

    @property
    def total(self) -> int:
        """Members of all clusters, silent ones too."""
        last = sum(each.row.members for each in self.last_claims().values())
        return last + sum(row.members for row in self.rows.values())

    @property
    def total_heard(self) -> int:
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
        """Nodes that are healthy, less those that were taken since their cluster counted them. Of
        silent clusters nothing is known: they leave out their nodes, see `total_heard`.
        """
        heard = {name: row for name, row in self.rows.items() if name not in self.silent}
        taken = sum(
            share.open and share.healthy and name not in heard[cluster].counted
            for (cluster, name), share in self.shares.items()
            if cluster in heard
        )
        return sum(row.healthy for row in heard.values()) - taken

    def granted(self, classes: Classes, operations: Operations) -> Iterator[datetime]:
        """Instants of all grants, oldest first."""
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
    """alone  whether this process is the only one of its cluster that answers: only then it may go
    by the cluster's reserves
    """

    alone: Callable[[], bool]
    groups: dict[str, FleetGroup] = field(default_factory=dict)
