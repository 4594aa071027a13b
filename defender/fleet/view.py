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
class Row:
    """One cluster.

    members, healthy  nodes of the group, and those that are healthy without an open permit
    reserves          permits that it may hold without asking, by key_of their classes
    roster            clusters that it will not forget, whatever becomes of Redis
    counted           its permits that `healthy` leaves out already
    """

    members: int = 0
    healthy: int = 0
    reserves: Mapping[str, int] = field(default_factory=dict)
    roster: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()

    def reserve(self, classes: Classes) -> int:
        """What it may hold of any of these classes, by all its reserves."""
        named = {each.value for each in classes}
        return sum(n for key, n in self.reserves.items() if not named.isdisjoint(key.split(",")))


@dataclass(frozen=True, slots=True)
class Share:
    """One permit in the group. `healthy`: it takes a healthy node away."""

    classes: Classes
    operation: Operation
    grants: tuple[tuple[Disruption, datetime], ...] = ()
    open: bool = True
    healthy: bool = False

    def counts(self, classes: Classes, operations: Operations) -> bool:
        return self.open and self.operation in operations and not self.classes.isdisjoint(classes)


@dataclass(slots=True)
class Known:
    """What is kept on the API server: it holds also when Redis is away, or has forgotten.

    total  members of all clusters, as of the last time all were heard of
    """

    reserves: dict[str, int] = field(default_factory=dict)
    roster: frozenset[str] = frozenset()
    total: int = 0


@dataclass(slots=True)
class Group:
    """`me` is this cluster. online: what others take is seen, and ours is by them."""

    me: str
    rows: dict[str, Row] = field(default_factory=dict)
    shares: dict[tuple[str, str], Share] = field(default_factory=dict)
    """By cluster and permit."""
    known: Known = field(default_factory=Known)
    online: bool = False
    why: str = "the fleet's store was not asked yet"

    def missing(self) -> list[str]:
        """Clusters of which nothing is known, though some cluster remembers them."""
        wanted = {self.me} | self.known.roster
        for row in self.rows.values():
            wanted |= row.roster
        return sorted(wanted - self.rows.keys())

    def strangers(self) -> list[str]:
        """Clusters that would forget this one."""
        others = (name for name in self.rows if name != self.me)
        return sorted(name for name in others if self.me not in self.rows[name].roster)

    @property
    def total(self) -> int:
        return sum(row.members for row in self.rows.values())

    def used(self, cluster: str, classes: Classes, operations: Operations) -> int:
        return sum(
            share.counts(classes, operations)
            for (of, _), share in self.shares.items()
            if of == cluster
        )

    def claimed_by_others(self, classes: Classes, operations: Operations) -> int:
        return sum(
            max(self.used(name, classes, operations), row.reserve(classes))
            for name, row in self.rows.items()
            if name != self.me
        )

    def healthy(self) -> int:
        """Nodes that are healthy, less those that were taken since their cluster counted them."""
        taken = sum(
            share.open and share.healthy and name not in self.rows[cluster].counted
            for (cluster, name), share in self.shares.items()
            if cluster in self.rows
        )
        return sum(row.healthy for row in self.rows.values()) - taken

    def granted(self, classes: Classes, operations: Operations) -> Iterator[datetime]:
        """Instants of all grants, oldest first."""
        yield from sorted(
            at
            for share in self.shares.values()
            if share.operation in operations
            for class_, at in share.grants
            if class_ in classes
        )


@dataclass(slots=True)
class Fleet:
    """alone  whether this process is the only one of its cluster that answers: only then it may go
    by the cluster's reserves
    """

    alone: Callable[[], bool]
    groups: dict[str, Group] = field(default_factory=dict)
