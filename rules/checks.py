"""Refuses invalid rules before they are compiled. Pure.

The API's models refuse most of them already. They are checked again because an object may get past
the models: built without validation, or stored before a check existed. An expression without
conditions must not select every node (failure mode F06).
"""

from collections.abc import Iterator
from datetime import timedelta

from kubenode.api.meta import NodeSelection
from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.leaves import (
    COMBINATORS,
    LEAVES,
    AbsentLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
    ProbeLeaf,
)
from kubenode.api.v1alpha1.noderemedier import OncePerGroup, Scope, Severity
from rules.builtin import BUILTIN, SAME_FAULT, Builtin, near
from rules.history import LONGEST_WINDOW, RECENT_SPAN
from rules.leaves.hostevent import CLOSED
from rules.probes import PROBES, REMOVED, ProbeField
from rules.rule import CompileError, RuleVersion

LONGEST_ONCE = timedelta(hours=72)
"""Longest `once.within`: closed jobs are deleted afterwards."""
LONGEST_WITHIN = timedelta(hours=24)
"""Longest `within` of a count of nodes."""
LONGEST_PROBED = timedelta(hours=1)
"""Longest `for` of a probe."""
Fault = tuple[str, str]
"""Path within the NodeRemedier, and what is wrong there."""


def check(rule: RuleVersion) -> None:
    """Raises CompileError for the first fault of `rule` that does not depend on other rules."""
    spec = rule.remedier.spec
    for path, why in (
        *_selection(spec.nodes),
        *_expression(spec.when, "spec.when"),
        *(_expression(spec.unless, "spec.unless") if spec.unless is not None else ()),
        *_counts(spec.when, "spec.when"),
        *_infer(rule),
        *_once(spec.once),
    ):
        raise CompileError(rule.id, path, why)


def _selection(nodes: NodeSelection) -> Iterator[Fault]:
    if (nodes.all is not True) == (nodes.selector is None):
        yield "spec.nodes", "says not which nodes: write either `all: true` or a selector"
    for name, selector in (("selector", nodes.selector), ("exclude", nodes.exclude)):
        if selector is not None and selector.empty:
            yield f"spec.nodes.{name}", "empty and would mean every node: write matchLabels"


def _expression(expression: Expression, path: str) -> Iterator[Fault]:
    names = (*COMBINATORS, *LEAVES, "absent")
    if sum(getattr(expression, name) is not None for name in names) != 1:
        yield path, "asks not one thing: write one of all, any, not, or one leaf"
        return
    if (leaf := expression.leaf) is not None:
        yield from _leaf(leaf, path)
        return
    if not expression.members:
        yield path, "an empty all or any would hold of every node: write its members"
    op = "all" if expression.all is not None else "any" if expression.any is not None else "not"
    for n, member in enumerate(expression.members):
        yield from _expression(member, f"{path}.{op}" + ("" if op == "not" else f"[{n}]"))


def _leaf(leaf: object, path: str) -> Iterator[Fault]:
    if isinstance(leaf, AbsentLeaf):
        if sum(getattr(leaf, name) is not None for name in LEAVES) != 1:
            yield f"{path}.absent", "says not what is absent: write one leaf, such as condition"
        else:
            yield from _absent(leaf, f"{path}.absent")
            yield from _leaf(leaf.leaf, f"{path}.absent")
    elif isinstance(leaf, EventLeaf):
        if leaf.reason is None and leaf.message is None:
            yield f"{path}.event", "any event would do: write a reason or a message"
        if leaf.within > LONGEST_WINDOW:
            yield f"{path}.event.within", "events are remembered for 30 days: ask about less"
    elif isinstance(leaf, HostEventLeaf):
        yield from _host_event(leaf, f"{path}.hostEvent")
    elif isinstance(leaf, FactLeaf):
        if why := _misplaced_within(leaf):
            yield f"{path}.fact.within", why
        known = BUILTIN.get(leaf.name)  # the compiler knows the values of derived facts
        if known is not None and (why := _misfit(leaf, known)):
            yield f"{path}.fact", why
    elif isinstance(leaf, ProbeLeaf):
        probe = PROBES.get(leaf.name)
        if probe is None:
            hint = REMOVED.get(leaf.name)
            what = f": no program answers it; {hint}" if hint else near(leaf.name, PROBES)
            yield f"{path}.probe.name", f"there is no probe {leaf.name!r}{what}"
        elif why := _misfit(leaf, probe):
            yield f"{path}.probe", why
        elif leaf.for_ > LONGEST_PROBED:
            yield f"{path}.probe.for", "answers are remembered for 1h: write 1h or less"


def _misplaced_within(leaf: FactLeaf) -> str:
    if leaf.within is None:
        return ""
    if leaf.name not in SAME_FAULT:
        return f"{leaf.name} has no beginning to count: leave it out, or ask for GROUP.sameFault"
    fits = timedelta(0) < leaf.within <= LONGEST_WITHIN
    return "" if fits else "beginnings are remembered for 24h: write more than 0s and at most 24h"


def _host_event(leaf: HostEventLeaf, path: str) -> Iterator[Fault]:
    """Refuse values that no HostEvent has: such a rule would never match, such a guard never
    hold.
    """
    if (leaf.class_, leaf.source, leaf.phase, leaf.severity) == (None,) * 4:
        yield path, "any HostEvent would do: write a class, source, phase or severity"
    for name, value, allowed in (
        ("class", leaf.class_, HostEventClass),
        ("source", leaf.source, HostEventSource),
        ("phase", leaf.phase, HostEventPhase),
        ("severity", leaf.severity, Severity),
    ):
        known = [str(word) for word in allowed]
        if value is not None and value not in known:
            what = near(value, known) or f": it is {', '.join(known)}"
            yield f"{path}.{name}", f"no HostEvent has {name} {value!r}{what}"
    if leaf.phase in CLOSED:
        yield f"{path}.phase", "a closed HostEvent never counts: write absent, or another phase"


def _absent(leaf: AbsentLeaf, path: str) -> Iterator[Fault]:
    inner = leaf.leaf
    if leaf.for_ and isinstance(inner, FactLeaf | ProbeLeaf):
        why = "what facts and probes were is not remembered: leave `for` out"
        yield f"{path}.for", why
    within = inner.within if isinstance(inner, EventLeaf) else timedelta(0)
    if isinstance(inner, EventLeaf | HostEventLeaf) and leaf.for_ + within > RECENT_SPAN:
        why = "that an event was absent is known for 24h at most: ask about less"
        yield f"{path}.for", why
    if isinstance(inner, FactLeaf) and inner.name in SAME_FAULT:
        yield path, f"{inner.name} cannot be asked with absent: compare it with below"


def _misfit(leaf: FactLeaf | ProbeLeaf, known: Builtin | ProbeField) -> str:
    """Describe why a comparison would always be unknown; "" if it may be known."""
    wanted = [] if leaf.equals is None else [leaf.equals]
    wanted += leaf.in_ or []
    if leaf.name == "time.inWindow" and getattr(leaf, "window", None) is None:
        return "time.inWindow needs `window`"
    if leaf.below is not None or leaf.above is not None:
        fits = known.type == "number"
    elif wanted:
        kind = int if known.type == "number" else str
        fits = known.type != "boolean" and all(isinstance(value, kind) for value in wanted)
    else:
        fits = known.type == "boolean"
    if not fits:
        return f"{leaf.name} is a {known.type}: compare it with {_COMPARISONS[known.type]}"
    allowed = known.values if isinstance(known, ProbeField) else ()
    odd = [str(value) for value in wanted if allowed and value not in allowed]
    return f"{leaf.name} is never {odd[0]!r}: it is {', '.join(allowed)}" if odd else ""


_COMPARISONS = {
    "boolean": "is: true or is: false",
    "number": "below, above, or equals with a number",
    "text": "equals or in with text",
}


def _counts(expression: Expression, path: str, negated: bool = False) -> Iterator[Fault]:
    """Check the places of `<group>.sameFault` in `when`.

    The fact counts nodes on which all other leaves are true. Without another leaf, or under `not`,
    that would be every node or none.
    """
    for op, members in (("all", expression.all), ("any", expression.any)):
        asks = [_asks_count(member) for member in members or ()]
        for n, member in enumerate(members or ()):
            if member.leaf is None:
                yield from _counts(member, f"{path}.{op}[{n}]", negated)
            elif asks[n] and (op == "any" or all(asks)):
                yield f"{path}.{op}[{n}].fact", _ALONE
            elif asks[n] and negated:
                yield f"{path}.{op}[{n}].fact", _NEGATED
    if expression.not_ is not None and _asks_count(expression.not_):
        yield f"{path}.not", _NEGATED
    elif expression.not_ is not None:
        yield from _counts(expression.not_, f"{path}.not", True)
    if expression.leaf is not None and path == "spec.when" and _asks_count(expression):
        yield f"{path}.fact", _ALONE


def _asks_count(expression: Expression) -> bool:
    return isinstance(expression.leaf, FactLeaf) and expression.leaf.name in SAME_FAULT


_ALONE = "counts the nodes on which the leaves beside it are true: write another leaf in one `all`"
_NEGATED = "a count cannot be asked under not: compare it the other way round"


def _once(once: OncePerGroup | None) -> Iterator[Fault]:
    if once is not None and once.within > LONGEST_ONCE:
        yield "spec.once.within", "a job is kept for 72h after its end: write 72h or less"


def _infer(rule: RuleVersion) -> Iterator[Fault]:
    infer = rule.remedier.spec.infer
    if infer is None:
        return
    if infer.fact in BUILTIN:
        yield "spec.infer.fact", f"{infer.fact!r} is a built-in fact"
    stored = infer.scope is not Scope.NODE or infer.for_
    if stored and infer.value is False:
        why = "false means that the fact does not hold: infer true, and ask it with not"
        yield "spec.infer.value", why
    for field in ("once", "window"):
        if getattr(rule.remedier.spec, field) is not None:
            yield f"spec.{field}", "a rule that infers makes no job: leave it out"
    if rule.remedier.spec.unless is not None:
        yield "spec.unless", "a rule that infers takes no guards: write `not` into its evidence"
