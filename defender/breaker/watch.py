"""The breakers of one policy: their nodes, counted, their states, and their history.

Scopes are kept from wide to narrow: the cluster, then labels in the order of the policy. The nodes
of an open scope are dark: they leave every wider one, so that two zones go on while a third is out.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from defender.breaker.cause import FailureShare, in_words, shared
from defender.breaker.group import BreakerGroup, BreakerNode
from defender.breaker.normal import at_once
from defender.breaker.record import MOST_CHANGES, change, recalled, told
from defender.breaker.step import CLOSED, PACE, BreakerTimes, ScopeObservation, ScopeState, step
from defender.coverage import CLUSTER
from defender.policies import LoadedPolicy
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
    """scopes  of the node, from wide to narrow, also those that do not count it
    alike   groups that count it whatever is dark
    """

    view: BreakerNode
    scopes: tuple[str, ...]
    counted: tuple[Counted, ...]
    alike: tuple[BreakerGroup, ...]


class BreakerWatch:
    """states   of every breaker that is not closed, or was not a while ago, by scope
    causes   why acts on nodes with one kernel, image or revision are refused, in words
    changes  what breakers did, oldest first
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
        """After a scope of the node got dark, or is so no more."""
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
        """The scopes of a node, from wide to narrow."""
        for label in self.labels:
            if label is None:
                yield CLUSTER
            elif label in labels:
                yield f"{label}={labels[label]}"

    def _counting(self, scopes: Sequence[str], view: BreakerNode) -> Iterator[Counted]:
        """Those groups of a node that count it: none that is wider than a dark one.

        A fault from before a breaker half opened is not new in wider scopes either, for it came
        while the node was dark to them.
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
        """Whether a permit on the node counts in the scope; one on a node that is gone does."""
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
        """Let each breaker take a step, the narrow ones first. Whether one of them changed.

        all_  those too that nothing but time can change
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
        after = step(before, self.seen(scope, before, now), self.spec.breaker, self.pace)
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
        """Closed breakers have nothing to count anew any more when their windows are past."""
        longest = max(self.pace.new, self.spec.breaker.trip.escalations.per)
        for scope, state in list(self.states.items()):
            if state.state is BreakerState.CLOSED and state.back_to(now - longest) <= now - longest:
                del self.states[scope]

    def _tidy(self, scope: str) -> None:
        group = self._groups.get(scope)
        if group is not None and not group.everyone and self.state(scope).state is CLOSED.state:
            del self._groups[scope]
            self.states.pop(scope, None)

    def seen(self, scope: str, state: ScopeState, now: datetime) -> ScopeObservation:
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
        """Whether a cause was found, or is over."""
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
                words = in_words(*cause, having, others, rule)
                self.causes[cause] = before.get(cause, words)
        for cause in [cause for cause, group in self._having.items() if not group.everyone]:
            del self._having[cause]
        return self.causes.keys() != before.keys()

    # -- what is kept -------------------------------------------------------------------------

    def status(self) -> list[BreakerStatus]:
        """Breakers that are not closed, the latest change first."""
        found = [
            told(scope, state)
            for scope, state in self.states.items()
            if state.state is not BreakerState.CLOSED
        ]
        return sorted(found, key=lambda each: each.since, reverse=True)[:MOST_CHANGES]

    def recall(self) -> None:
        """Take up what the policy's status says, where nothing newer is known."""
        status = self.policy.status
        self.changes.extend(e for e in status.breaker_history if e not in self.changes)
        for entry in sorted((*status.breaker_history, *status.breaker), key=lambda e: e.since):
            known = self.states.get(entry.scope)
            if not self._is_mine(entry.scope):
                continue
            if known is None or known.since is None or known.since < entry.since:
                self.states[entry.scope] = recalled(entry, known)

    def inherit(self, other: "BreakerWatch") -> None:
        """Take up the states of the same policy before it was changed."""
        self.states = {s: state for s, state in other.states.items() if self._is_mine(s)}
        self.changes = other.changes

    def _is_mine(self, scope: str) -> bool:
        return _label_of(scope) in self.labels


def _labels_of(spec: DefenderPolicySpec) -> tuple[str | None, ...]:
    """From wide to narrow; None is the cluster."""
    labels = dict.fromkeys(scope.label for scope in spec.breaker.scopes)
    return tuple(sorted(labels, key=lambda label: label is not None))


def _label_of(scope: str) -> str | None:
    return None if scope == CLUSTER else scope.partition("=")[0]
