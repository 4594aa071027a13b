"""Numbers of permits that count in each limit, and the token buckets of rates.

A permit counts in a scope while its node is in it, and also where it was granted, so relabelling a
node frees no slot. A permit with unknown scopes counts in each. Ledger and census report changed
permits and nodes, and only these are counted again before the next answer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from defender.decision.census import Census
from defender.decision.clients import client_of
from defender.decision.coverage import Coverage, Group, Key, ScopedLimit, classes_of
from defender.decision.ledger import LedgerPermit, PermitLedger
from defender.decision.limits.bucket import RateBucket, Taken
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import Limit, Rate

MOST_UNCOUNTED = 5_000
"""Greatest number of changes that wait for the next request."""
Anywhere = tuple[str, int]
"""Name of a policy and index of its limit, for permits that count in each of its scopes."""


@dataclass(slots=True)
class PermitCost:
    """What one permit adds to the sums, so that it can be subtracted again.

    client: as of `client_of`.
    """

    node: str
    client: str | None
    keys: list[Key] = field(default_factory=list)
    anywhere: list[Anywhere] = field(default_factory=list)
    taken: list[tuple[Key, Taken]] = field(default_factory=list)
    taken_anywhere: list[tuple[Anywhere, Taken]] = field(default_factory=list)

    @property
    def places(self) -> Iterator[Key | Anywhere]:
        """The limits in which the permit counts as open."""
        yield from self.keys
        yield from self.anywhere


class LimitCounts:
    """Sums of the ledger's permits for the groups of the census."""

    def __init__(self, census: Census, ledger: PermitLedger) -> None:
        self._census, self._ledger = census, ledger
        self._coverage: Coverage = census.coverage
        self._permits: set[str] = set()
        self._nodes: set[str] = set()
        self._entries: dict[str, PermitCost] = {}
        self._open: Counter[Key] = Counter()
        self._open_anywhere: Counter[Anywhere] = Counter()
        self._open_by_client: defaultdict[Key | Anywhere, Counter[str]] = defaultdict(Counter)
        self._buckets: dict[Key, RateBucket] = {}
        self._scopes: dict[Anywhere, set[str]] = {}
        self._taken_anywhere: dict[Anywhere, set[Taken]] = {}
        census.on_moved = self._node_moved
        ledger.on_changed = self._permit_changed
        self._permits.update(permit.name for permit in ledger)

    # -- keeping up ---------------------------------------------------------------------------

    def _node_moved(self, name: str) -> None:
        self._nodes.add(name)
        if len(self._nodes) > MOST_UNCOUNTED:
            self._sync()

    def _permit_changed(self, name: str) -> None:
        self._permits.add(name)
        if len(self._permits) > MOST_UNCOUNTED:
            self._sync()

    def _sync(self) -> None:
        """Count what has changed."""
        if self._coverage is not self._census.coverage:
            self._begin_anew()
        for node in self._nodes:
            self._permits.update(permit.name for permit in self._ledger.on_node(node))
        names = list(self._permits)
        self._permits.clear()
        self._nodes.clear()
        nodes = set[str]()
        for name in names:
            if (entry := self._entries.pop(name, None)) is not None:
                nodes.add(entry.node)
                self._leave(entry)
            if (permit := self._ledger.get(name)) is not None:
                nodes.add(permit.node)
                self._enter(permit)
        for node in nodes:
            self._census.take(node, bool(self._ledger.open_on(node)))

    def _begin_anew(self) -> None:
        self._coverage = self._census.coverage
        self._entries.clear()
        self._open.clear()
        self._open_anywhere.clear()
        self._open_by_client.clear()
        self._buckets.clear()
        self._scopes.clear()
        self._taken_anywhere.clear()
        self._permits.update(permit.name for permit in self._ledger)

    def _enter(self, permit: LedgerPermit) -> None:
        entry = self._entries[permit.name] = PermitCost(permit.node, client_of(permit.holder))
        for bound in self._bounds_of(permit):
            if permit.open and permit.counts_as(bound.classes):
                entry.keys.append(bound.key)
                self._open[bound.key] += 1
            if bound.limit.rate is not None:
                for taken in _taken(permit, bound.classes):
                    entry.taken.append((bound.key, taken))
                    self._ensure_bucket(bound.key, bound.limit.rate).add(taken)
        if permit.scopes is None:
            self._enter_anywhere(permit, entry)
        if entry.client is not None:
            for place in entry.places:
                self._open_by_client[place][entry.client] += 1

    def _enter_anywhere(self, permit: LedgerPermit, entry: PermitCost) -> None:
        for each, limit in self._limits_for(permit):
            classes = classes_of(limit)
            if permit.open and permit.counts_as(classes):
                entry.anywhere.append(each)
                self._open_anywhere[each] += 1
            if limit.rate is None:
                continue
            for taken in _taken(permit, classes):
                entry.taken_anywhere.append((each, taken))
                self._taken_anywhere.setdefault(each, set()).add(taken)
                for scope in self._scopes.get(each, ()):
                    self._buckets[*each, scope].add(taken)

    def _leave(self, entry: PermitCost) -> None:
        self._open.subtract(entry.keys)
        self._open_anywhere.subtract(entry.anywhere)
        for key in entry.keys:
            if not self._open[key]:
                del self._open[key]
        if entry.client is not None:
            self._leave_client(entry.client, entry.places)
        for each, taken in entry.taken_anywhere:
            self._taken_anywhere[each].discard(taken)
            for scope in list(self._scopes.get(each, ())):
                self._remove((*each, scope), taken)
        for key, taken in entry.taken:
            self._remove(key, taken)

    def _leave_client(self, client: str, places: Iterable[Key | Anywhere]) -> None:
        for place in places:
            counts = self._open_by_client[place]
            counts[client] -= 1
            if not counts[client]:
                del counts[client]
            if not counts:
                del self._open_by_client[place]

    def _bounds_of(self, permit: LedgerPermit) -> Iterator[ScopedLimit]:
        """Yield the limits that count the permit, each in its scope."""
        if permit.scopes is None:
            return
        place = self._census.place(permit.node)
        bounds: dict[Key, ScopedLimit] = {}
        for ruling in (*place.rulings, place.fallback) if place is not None else ():
            if _rules(ruling.policy, permit):
                bounds.update((bound.key, bound) for bound in ruling.bounds)
        for policy, bound in self._coverage.recorded(permit.scopes):
            if _rules(policy, permit):
                bounds[bound.key] = bound
        yield from bounds.values()

    def _limits_for(self, permit: LedgerPermit) -> Iterator[tuple[Anywhere, Limit]]:
        for policy in self._coverage.everyone:
            if policy.spec is not None and _rules(policy, permit):
                for index, limit in enumerate(policy.spec.limits):
                    yield (policy.name, index), limit

    def _ensure_bucket(self, key: Key, rate: Rate) -> RateBucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = RateBucket(rate)
            self._scopes.setdefault(key[:2], set()).add(key[2])
            for taken in self._taken_anywhere.get(key[:2], ()):
                bucket.add(taken)
        return bucket

    def _remove(self, key: Key, taken: Taken) -> None:
        self._buckets[key].remove(taken)
        if not len(self._buckets[key]):
            del self._buckets[key]
            self._scopes[key[:2]].discard(key[2])

    # -- reading ------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Count pending changes. Call it before reading; once suffices for all reads without an
        await.
        """
        if self._permits or self._nodes or self._coverage is not self._census.coverage:
            self._sync()

    def used(self, bound: ScopedLimit, mine: LedgerPermit | None = None) -> int:
        """Return the number of open permits that count in the limit, without `mine`."""
        used = self._open[bound.key] + self._open_anywhere[bound.key[:2]]
        return used - self._counts_in(bound, mine) if used else 0

    def used_by(self, client: str, bound: ScopedLimit, mine: LedgerPermit | None = None) -> int:
        """Return the number of the client's open permits that count in the limit, without
        `mine`.
        """
        used = self._by_client(bound)[client]
        theirs = mine is not None and client_of(mine.holder) == client
        return used - (theirs and self._counts_in(bound, mine))

    def greatest_use_by_client(self, bound: ScopedLimit) -> int:
        """Return the number of open permits of the client that has the most in the limit."""
        return max(self._by_client(bound).values(), default=0)

    def _by_client(self, bound: ScopedLimit) -> Counter[str]:
        inside = self._open_by_client.get(bound.key, Counter())
        return inside + self._open_by_client.get(bound.key[:2], Counter())

    def _counts_in(self, bound: ScopedLimit, permit: LedgerPermit | None) -> bool:
        entry = None if permit is None else self._entries.get(permit.name)
        if entry is None:
            return False
        return bound.key in entry.keys or bound.key[:2] in entry.anywhere

    def bucket(self, bound: ScopedLimit, rate: Rate) -> RateBucket:
        """Return the token bucket of the limit, which must not be changed."""
        stored = self._buckets.get(bound.key)
        if stored is None and self._taken_anywhere.get(bound.key[:2]):
            stored = self._ensure_bucket(bound.key, rate)
        return stored if stored is not None else RateBucket(rate)

    def tokens(
        self, bound: ScopedLimit, rate: Rate, now: datetime, mine: LedgerPermit | None = None
    ) -> float:
        """Return the tokens that are left, without those taken by grants of `mine` that may not
        exist.
        """
        without = frozenset[Taken]()
        if mine is not None and (doubtful := len(mine.grants) if mine.late else mine.unsure):
            without = frozenset(_taken(mine, bound.classes, last=doubtful))
        return self.bucket(bound, rate).tokens(now, without)

    def free(self, group: Group) -> int:
        """Return the number of healthy nodes of the group without an open permit."""
        self.catch_up()
        return self._census.tally(group).free


def _taken(
    permit: LedgerPermit, classes: frozenset[Disruption], last: int | None = None
) -> list[Taken]:
    """Return the tokens that the grants of the permit took for these classes.

    last: only that many last grants; None: all.
    """
    first = 0 if last is None else len(permit.grants) - last
    return [
        (at, permit.name, place)
        for place, (class_, at) in enumerate(permit.grants)
        if place >= first and (class_ in classes or permit.unreadable)
    ]


def _rules(policy: LoadedPolicy, permit: LedgerPermit) -> bool:
    return bool(permit.unreadable) or policy.rules(permit.operation)
