"""Breakers of one policy: counts of their nodes, states and history.

Scopes are ordered from wide to narrow: the cluster, then labels in the order of the policy. The
nodes of an open scope are dark: all wider scopes leave them out, so that two zones go on while a
third is out.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from defender.decision.breaker.cause import FailureShare, describe_cause, shared
from defender.decision.breaker.group import BreakerGroup, BreakerNode
from defender.decision.breaker.normal import at_once
from defender.decision.breaker.record import MOST_CHANGES, change, recalled, to_status
from defender.decision.breaker.step import (
    CLOSED,
    PACE,
    BreakerTimes,
    ScopeObservation,
    ScopeState,
    step,
)
from defender.decision.coverage import CLUSTER
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1.defenderpolicy import (
    BreakerChange,
    BreakerState,
    BreakerStatus,
    DefenderPolicySpec,
)

Cause = tuple[str, str]


class Counted(NamedTuple):
    """A node in a group. `fresh`: its fault may be new there."""

    group: BreakerGroup
    fresh: bool


class NodePlacement(NamedTuple):
    """Groups of a node.

    scopes: scopes of the node from wide to narrow, also those that do not count it.
    alike: groups that count it even if it is dark.
    """

    view: BreakerNode
    scopes: tuple[str, ...]
    counted: tuple[Counted, ...]
    alike: tuple[BreakerGroup, ...]


class BreakerWatch:
    """Breakers of one policy.

    states: the states of breakers that are not closed, or were open lately, by scope.
    causes: why acts on nodes with a kernel, image or revision are refused, by cause.
    changes: changes of breakers, oldest first.
    """

    def __init__(
        self, policy: LoadedPolicy, spec: DefenderPolicySpec, pace: BreakerTimes = PACE
    ) -> None:
        self.policy, self.spec, self.pace = policy, spec, pace
        self.labels = _labels_of(spec)
        self.states: dict[str, ScopeState] = {}
        self.causes: dict[Cause, str] = {}
        self.changes: deque[BreakerChange] = deque(maxlen=MOST_CHANGES)
        self.whole = BreakerGroup()
        self._groups: dict[str, BreakerGroup] = {}
        self._having: dict[Cause, BreakerGroup] = {}
        self._placed: dict[str, NodePlacement] = {}
        self._changed: set[str] = set()

    # -- nodes --------------------------------------------------------------------------------

    def put(self, name: str, view: BreakerNode | None) -> None:
        """Add or replace a node, None to remove it."""
        before = self._placed.pop(name, None)
        if before is not None:
            self._take_away(name, before)
        if view is None:
            return
        if before is not None and (before.view.labels, before.view.causes) == (
            view.labels,
            view.causes,
        ):
            scopes, alike = before.scopes, before.alike
        elif self.policy.covers(view.labels):
            scopes, alike = tuple(self.scopes(view.labels)), (self.whole, *self._causing(view))
        else:
            return
        counted = tuple(self._counting(scopes, view))
        for group, fresh in counted:
            group.add(name, view, fresh)
        for group in alike:
            group.add(name, view)
        self._placed[name] = NodePlacement(view, scopes, counted, alike)
        self._changed.update(scopes)

    def _take_away(self, name: str, placed: NodePlacement) -> None:
        for group, fresh in placed.counted:
            group.remove(name, placed.view, fresh)
        for group in placed.alike:
            group.remove(name, placed.view)
        self._changed.update(placed.scopes)

    def _count_anew(self, name: str) -> None:
        """Count a node again after one of its scopes became dark, or is no longer."""
        placed = self._placed[name]
        counted = tuple(self._counting(placed.scopes, placed.view))
        for each in placed.counted:
            if each not in counted:
                each.group.remove(name, placed.view, each.fresh)
        for each in counted:
            if each not in placed.counted:
                each.group.add(name, placed.view, each.fresh)
        self._placed[name] = placed._replace(counted=counted)
        self._changed.update(placed.scopes)

    def scopes(self, labels: Mapping[str, str]) -> Iterator[str]:
        """Yield the scopes of a node, from wide to narrow."""
        for label in self.labels:
            if label is None:
                yield CLUSTER
            elif label in labels:
                yield f"{label}={labels[label]}"

    def _counting(self, scopes: Sequence[str], view: BreakerNode) -> Iterator[Counted]:
        """Yield the groups that count a node: none that is wider than a dark one.

        A fault from before a breaker became half-open is not new in wider scopes, because they did
        not count the node then.
        """
        if not self.states:
            yield from [Counted(self._group(scope), True) for scope in scopes]
            return
        dark = [index for index, scope in enumerate(scopes) if self._dark(scope)]
        for index in range(max(dark, default=0), len(scopes)):
            narrower = (self.state(scope).counts_from for scope in scopes[index + 1 :])
            past = max((at for at in narrower if at is not None), default=None)
            fresh = past is None or view.failed is None or view.failed > past
            yield Counted(self._group(scopes[index]), fresh)

    def _group(self, scope: str) -> BreakerGroup:
        group = self._groups.get(scope)
        if group is None:
            nodes = None if scope == CLUSTER else set[str]()
            group = self._groups[scope] = BreakerGroup(nodes=nodes)
        return group

    def _causing(self, view: BreakerNode) -> Iterator[BreakerGroup]:
        for cause in view.causes:
            if cause[0] in self.spec.breaker.common_cause.group_by:
                yield self._having.setdefault(cause, BreakerGroup())

    def _dark(self, scope: str) -> bool:
        return scope != CLUSTER and self.state(scope).state is BreakerState.OPEN

    # -- reading ------------------------------------------------------------------------------

    def state(self, scope: str) -> ScopeState:
        return self.states.get(scope, CLOSED)

    def group(self, scope: str) -> BreakerGroup:
        return self._groups.get(scope) or BreakerGroup()

    def having(self, cause: Cause) -> BreakerGroup:
        return self._having.get(cause) or BreakerGroup()

    def view(self, node: str) -> BreakerNode | None:
        placed = self._placed.get(node)
        return placed.view if placed is not None else None

    def inside(self, node: str, scope: str) -> bool:
        """Return whether a permit on the node counts in the scope. One on a missing node does."""
        view = self.view(node)
        return view is None or scope in self.scopes(view.labels)

    @property
    def dark(self) -> frozenset[str]:
        return frozenset(scope for scope in self.states if self._dark(scope))

    def open(self) -> Iterator[str]:
        for scope, state in self.states.items():
            if state.state is BreakerState.OPEN:
                yield scope

    # -- stepping -----------------------------------------------------------------------------

    def advance(self, now: datetime, *, all_: bool) -> bool:
        """Step each breaker, narrow scopes first. Return whether any has changed.

        all_: also step breakers that only time can change.
        """
        # To the millisecond, as the policy's status keeps it.
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        busy = {s for s, state in self.states.items() if state.state is not BreakerState.CLOSED}
        due = self._changed | busy if all_ else self._changed
        if all_:
            self._forget(now)
        self._changed = set()
        moved = False
        for label in reversed(self.labels):
            for scope in sorted(s for s in due | self._changed if _label_of(s) == label):
                moved |= self._step(scope, now)
        self._changed.clear()
        return self._find_causes(now) or moved

    def _step(self, scope: str, now: datetime) -> bool:
        before = self.state(scope)
        after = step(before, self.observe(scope, before, now), self.spec.breaker, self.pace)
        if after is before:
            self._tidy(scope)
            return False
        was_dark = self._dark(scope)
        self.states[scope] = after
        if self._dark(scope) is not was_dark:
            for name in list(self.group(scope).nodes or ()):
                self._count_anew(name)
        if before.state is after.state:
            return False
        self.changes.append(change(scope, after))
        return True

    def _forget(self, now: datetime) -> None:
        """Drop closed breakers whose windows have passed."""
        longest = max(self.pace.new, self.spec.breaker.trip.escalations.per)
        for scope, state in list(self.states.items()):
            if state.state is BreakerState.CLOSED and state.back_to(now - longest) <= now - longest:
                del self.states[scope]

    def _tidy(self, scope: str) -> None:
        group = self._groups.get(scope)
        if group is not None and not group.everyone and self.state(scope).state is CLOSED.state:
            del self._groups[scope]
            self.states.pop(scope, None)

    def observe(self, scope: str, state: ScopeState, now: datetime) -> ScopeObservation:
        group, trip = self.group(scope), self.spec.breaker.trip
        climbed, rule, rung = (0, "", 0)
        if group.climbs:
            since = state.back_to(now - trip.escalations.per)
            climbed, rule, rung = group.climbed_since(since)
        return ScopeObservation(
            now=now,
            members=group.members,
            unhealthy=group.unhealthy,
            new=group.failed_since(state.back_to(now - self.pace.new)),
            climbed=climbed,
            rule=rule,
            rung=rung,
            limit=at_once(self.spec, _label_of(scope), group.members, self.whole.members),
        )

    # -- common cause -------------------------------------------------------------------------

    def _find_causes(self, now: datetime) -> bool:
        """Update the common causes. Return whether one was found or has ended."""
        rule = self.spec.breaker.common_cause
        before, since = dict(self.causes), now - rule.within
        self.causes = {}
        for cause, group in self._having.items():
            if 2 * len(group.starts) < rule.min_faults:
                continue
            having = FailureShare(group.failed_since(since), group.members)
            others = FailureShare(
                self.whole.failed_since(since) - having.faults, self.whole.members - having.nodes
            )
            if shared(having, others, rule, known=cause in before):
                description = describe_cause(*cause, having, others, rule)
                self.causes[cause] = before.get(cause, description)
        for cause in [cause for cause, group in self._having.items() if not group.everyone]:
            del self._having[cause]
        return self.causes.keys() != before.keys()

    # -- what is kept -------------------------------------------------------------------------

    def status(self) -> list[BreakerStatus]:
        """Return the breakers that are not closed, the latest change first."""
        statuses = [
            to_status(scope, state)
            for scope, state in self.states.items()
            if state.state is not BreakerState.CLOSED
        ]
        return sorted(statuses, key=lambda each: each.since, reverse=True)[:MOST_CHANGES]

    def recall(self) -> None:
        """Restore states from the policy's status, unless newer ones are known."""
        status = self.policy.status
        self.changes.extend(e for e in status.breaker_history if e not in self.changes)
        for entry in sorted((*status.breaker_history, *status.breaker), key=lambda e: e.since):
            known = self.states.get(entry.scope)
            if not self._is_mine(entry.scope):
                continue
            if known is None or known.since is None or known.since < entry.since:
                self.states[entry.scope] = recalled(entry, known)

    def inherit(self, other: "BreakerWatch") -> None:
        """Take over the states from before a change of the policy."""
        self.states = {s: state for s, state in other.states.items() if self._is_mine(s)}
        self.changes = other.changes

    def _is_mine(self, scope: str) -> bool:
        return _label_of(scope) in self.labels


def _labels_of(spec: DefenderPolicySpec) -> tuple[str | None, ...]:
    """Return the labels of the scopes from wide to narrow. None is the cluster."""
    labels = dict.fromkeys(scope.label for scope in spec.breaker.scopes)
    return tuple(sorted(labels, key=lambda label: label is not None))


def _label_of(scope: str) -> str | None:
    return None if scope == CLUSTER else scope.partition("=")[0]
