"""Determine which policies cover a node, and in which scope each limit counts it.

Thousands of nodes differ in labels that no policy reads, and agree in those that one does. The
result is computed once for each combination of the labels that matter, and shared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from defender.decision.policies import BUILT_IN, BUILT_IN_NAME, LoadedPolicy
from kubenode.api.meta import LabelSelector
from kubenode.api.v1alpha1 import Disruption, Operation
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit, LimitScope

CLUSTER = "cluster"
CONTROL_PLANE = "control-plane"
CONTROL_PLANE_LABELS = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
EVERYBODYS = ("default", BUILT_IN_NAME)
"""Policies whose name a permit's record leaves out."""
OF_POLICY = "policy:"
"""Prefix of a policy's name in a permit's record."""
BY_DEFAULT = frozenset({Disruption.PODS, Disruption.NODE})
"""Disruption classes of a limit that names none."""
MOST_PLACES = 50_000
"""Greatest number of cached combinations, so that months of changing nodes do not fill the memory.
"""

Group = tuple[str, str]
"""Name of a policy and a scope in it: `cluster`, `control-plane` or `label=value`."""
Key = tuple[str, int, str]
"""Name of a policy, index of its limit, and the scope in which the limit counts."""


def is_control_plane(labels: Mapping[str, str]) -> bool:
    return any(label in labels for label in CONTROL_PLANE_LABELS)


def scope_of(limit: Limit, labels: Mapping[str, str], control_plane: bool) -> str | None:
    """Return the limit's scope that contains the node, None if the limit does not apply to it."""
    match limit.scope:
        case LimitScope.CLUSTER:
            return CLUSTER
        case LimitScope.CONTROL_PLANE:
            return CONTROL_PLANE if control_plane else None
        case LimitScope.LABEL:
            # A node without the label is in no scope; an empty value is a value.
            value = labels.get(limit.label or "")
            return None if value is None else f"{limit.label}={value}"
        case LimitScope.FLEET:
            return fleet_scope(limit)


def fleet_scope(limit: Limit) -> str:
    """Return the name of a Fleet limit's scope, which no label can have."""
    return f"fleet({limit.group})"


def in_scope(scope: str, labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels is in the scope, as named by `scope_of`."""
    if scope == CLUSTER:
        return True
    if scope == CONTROL_PLANE:
        return is_control_plane(labels)
    label, _, value = scope.partition("=")
    return labels.get(label) == value


def classes_of(limit: Limit) -> frozenset[Disruption]:
    """Return the disruption classes to which the limit applies."""
    return frozenset(limit.classes) if limit.classes else BY_DEFAULT


def record(scopes: Iterable[str], policies: Iterable[str]) -> frozenset[str]:
    """Return what a permit's status records about where it counts: scopes, and policies as
    `policy:NAME`.

    Labels contain no colon, so the two cannot be confused. Without a policy the permit counts for
    the scopes in all policies.
    """
    named = [f"{OF_POLICY}{name}" for name in policies]
    return frozenset((*scopes, *named))


@dataclass(frozen=True, slots=True)
class ScopedLimit:
    """One limit in the scope in which it applies to a node."""

    limit: Limit
    scope: str
    group: Group
    key: Key
    classes: frozenset[Disruption]


@dataclass(frozen=True, slots=True)
class Ruling:
    """One policy as it applies to a node. `spec` is None if the policy is unreadable.

    excluded: the policy's spec excludes the node from disruption.
    bounds: the limits that apply.
    """

    policy: LoadedPolicy
    spec: DefenderPolicySpec | None
    excluded: bool
    bounds: tuple[ScopedLimit, ...]
    _for_class: dict[Disruption, tuple[ScopedLimit, ...]] = field(
        default_factory=dict, compare=False
    )

    def for_class(self, class_: Disruption) -> tuple[ScopedLimit, ...]:
        """Return the limits that apply to acts of this class."""
        limits = self._for_class.get(class_)
        if limits is None:
            limits = tuple([bound for bound in self.bounds if class_ in bound.classes])
            self._for_class[class_] = limits
        return limits


@dataclass(slots=True)
class PolicyCoverage:
    """What applies to all nodes with the same values of the labels that policies read.

    rulings: the policies that cover the nodes, by name.
    fallback: rules the operations that these policies do not.
    groups: all groups that contain the nodes, including the scopes of breakers.
    """

    rulings: tuple[Ruling, ...]
    fallback: Ruling
    groups: frozenset[Group]
    _ruling: dict[Operation, tuple[Ruling, ...]] = field(default_factory=dict)

    def ruling(self, operation: Operation) -> tuple[Ruling, ...]:
        """Return the policies that rule the operation, the fallback if there is none. Never
        empty.
        """
        rulings = self._ruling.get(operation)
        if rulings is None:
            rulings = tuple(r for r in self.rulings if r.policy.rules(operation))
            rulings = self._ruling[operation] = rulings or (self.fallback,)
        return rulings


class Coverage:
    """Coverage of nodes by a set of policies, cached by label values."""

    def __init__(
        self, policies: Iterable[LoadedPolicy] = (), fallback: LoadedPolicy = BUILT_IN
    ) -> None:
        self.policies = tuple(sorted(policies, key=lambda policy: policy.name))
        self.fallback = fallback
        self.everyone = (*self.policies, fallback)
        self._labels = tuple(sorted({key for p in self.everyone for key in _labels_of(p)}))
        self._places: dict[tuple[str | None, ...], PolicyCoverage] = {}
        self._bounds: dict[Key, ScopedLimit] = {}
        self._rulings: dict[tuple[str, bool, tuple[Key, ...]], Ruling] = {}
        self._at: dict[Group, tuple[ScopedLimit, ...]] = {}

    def place(self, labels: Mapping[str, str]) -> PolicyCoverage:
        """Return the coverage of nodes with these labels."""
        known = tuple(map(labels.get, self._labels))
        place = self._places.get(known)
        if place is None:
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            place = self._places[known] = self._work_out(labels)
        return place

    def bound(self, policy: str, index: int, limit: Limit, scope: str) -> ScopedLimit:
        """Return the limit in this scope, shared by all callers."""
        key = (policy, index, scope)
        bound = self._bounds.get(key)
        if bound is None:
            if len(self._bounds) >= MOST_PLACES:
                self._bounds.clear()
            bound = ScopedLimit(limit, scope, (policy, scope), key, classes_of(limit))
            self._bounds[key] = bound
        return bound

    def recorded(self, record: frozenset[str]) -> Iterator[tuple[LoadedPolicy, ScopedLimit]]:
        """Yield the limits in which a permit with this record counts, with their policies."""
        names = {each.removeprefix(OF_POLICY) for each in record if each.startswith(OF_POLICY)}
        scopes = [each for each in record if not each.startswith(OF_POLICY)]
        for policy in self.everyone:
            if not names or policy.name in names:
                for scope in scopes:
                    for bound in self._bounds_at(policy, scope):
                        yield policy, bound

    def _bounds_at(self, policy: LoadedPolicy, scope: str) -> tuple[ScopedLimit, ...]:
        bounds = self._at.get((policy.name, scope))
        if bounds is None:
            if len(self._at) >= MOST_PLACES:
                self._at.clear()
            limits = policy.spec.limits if policy.spec is not None else ()
            bounds = self._at[policy.name, scope] = tuple(
                self.bound(policy.name, index, limit, scope)
                for index, limit in enumerate(limits)
                if about(limit, scope)
            )
        return bounds

    def _work_out(self, labels: Mapping[str, str]) -> PolicyCoverage:
        plane = is_control_plane(labels)
        covering = [policy for policy in self.policies if policy.covers(labels)]
        rulings = tuple([self._ruling(policy, labels, plane) for policy in covering])
        fallback = self._ruling(self.fallback, labels, plane)
        groups = frozenset(
            group for ruling in (*rulings, fallback) for group in _groups_of(ruling, labels)
        )
        return PolicyCoverage(rulings, fallback, groups)

    def _ruling(
        self, policy: LoadedPolicy, labels: Mapping[str, str], control_plane: bool
    ) -> Ruling:
        spec, name = policy.spec, policy.name
        bounds = [
            self.bound(name, index, limit, scope)
            for index, limit in enumerate(spec.limits if spec is not None else ())
            if (scope := scope_of(limit, labels, control_plane)) is not None
        ]
        excluded = spec is not None and spec.exclude is not None and spec.exclude.matches(labels)
        known = (name, excluded, tuple([bound.key for bound in bounds]))
        ruling = self._rulings.get(known)
        if ruling is None:
            if len(self._rulings) >= MOST_PLACES:
                self._rulings.clear()
            ruling = self._rulings[known] = Ruling(policy, spec, excluded, tuple(bounds))
        return ruling


def about(limit: Limit, scope: str) -> bool:
    """Return whether the limit may have this scope."""
    match limit.scope:
        case LimitScope.CLUSTER:
            return scope == CLUSTER
        case LimitScope.CONTROL_PLANE:
            return scope == CONTROL_PLANE
        case LimitScope.LABEL:
            return scope.partition("=")[0] == limit.label and "=" in scope
        case LimitScope.FLEET:
            return scope == fleet_scope(limit)


def _groups_of(ruling: Ruling, labels: Mapping[str, str]) -> Iterator[Group]:
    if ruling.spec is None:
        return
    name = ruling.policy.name
    yield name, CLUSTER
    for bound in ruling.bounds:
        yield bound.group
    for scope in ruling.spec.breaker.scopes:
        if scope.label is not None and scope.label in labels:
            yield name, f"{scope.label}={labels[scope.label]}"


def _labels_of(policy: LoadedPolicy) -> Iterator[str]:
    """Yield all labels that decide how the policy applies to a node."""
    yield from CONTROL_PLANE_LABELS
    spec = policy.spec
    if spec is None:
        for selector in (policy.nodes.selector, policy.nodes.exclude) if policy.nodes else ():
            if selector is not None:
                yield from _labels_in(selector)
        return
    for selector in (spec.nodes.selector, spec.nodes.exclude, spec.exclude):
        if selector is not None:
            yield from _labels_in(selector)
    yield from (limit.label for limit in spec.limits if limit.label is not None)
    yield from (scope.label for scope in spec.breaker.scopes if scope.label is not None)


def _labels_in(selector: LabelSelector) -> Sequence[str]:
    return [*selector.match_labels, *(each.key for each in selector.match_expressions)]
