"""What a rule must not be, looked at before it is compiled. Pure.

The API's models refuse most of this already. It is looked at again here because what gets past
them (an object that was built without validation, or stored before a check existed) must not turn
"nothing asked" into "every node": F06 of the failures that we are built against.
"""

from collections.abc import Iterator

from kubenode.api.meta import NodeSelection
from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import COMBINATORS, LEAVES, AbsentLeaf, EventLeaf, FactLeaf
from kubenode.api.v1alpha1.noderemedier import Scope
from rules.builtin import BUILTIN
from rules.rule import CompileError, Rule

Fault = tuple[str, str]
"""Path within the NodeRemedier, and what is wrong there."""


def check(rule: Rule) -> None:
    """Raises CompileError for the first fault of `rule` that needs no other rule to be seen."""
    spec = rule.remedier.spec
    for path, why in (
        *_selection(spec.nodes),
        *_expression(spec.when, "spec.when"),
        *(_expression(spec.unless, "spec.unless") if spec.unless is not None else ()),
        *_infer(rule),
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
            yield from _leaf(leaf.leaf, f"{path}.absent")
    elif isinstance(leaf, EventLeaf) and leaf.reason is None and leaf.message is None:
        yield f"{path}.event", "any event would do: write a reason or a message"
    elif isinstance(leaf, FactLeaf) and (why := _misfit(leaf)):
        yield f"{path}.fact", why


def _misfit(leaf: FactLeaf) -> str:
    """Why a comparison never fits a built-in fact, which would be unknown for ever; "" if it may.

    Of derived facts the compiler knows the values.
    """
    builtin = BUILTIN.get(leaf.name)
    if builtin is None:
        return ""
    wanted = [] if leaf.equals is None else [leaf.equals]
    wanted += leaf.in_ or []
    if leaf.below is not None or leaf.above is not None:
        fits = builtin.type == "number"
    elif wanted:
        kind = int if builtin.type == "number" else str
        fits = builtin.type != "boolean" and all(isinstance(value, kind) for value in wanted)
    else:
        fits = builtin.type == "boolean"
    ways = {
        "boolean": "is: true or is: false",
        "number": "below, above, or equals with a number",
        "text": "equals or in with text",
    }
    return "" if fits else f"{leaf.name} is a {builtin.type}: compare it with {ways[builtin.type]}"


def _infer(rule: Rule) -> Iterator[Fault]:
    infer = rule.remedier.spec.infer
    if infer is None:
        return
    if infer.fact in BUILTIN:
        yield "spec.infer.fact", f"{infer.fact!r} is a built-in fact"
    if infer.scope is not Scope.NODE:
        yield (
            "spec.infer.scope",
            f"scope {infer.scope} is not available in this version: use Node",
        )
    if infer.for_:
        why = "keeping a fact after its evidence is not available in this version: leave it out"
        yield "spec.infer.for", why
    if rule.remedier.spec.unless is not None:
        yield "spec.unless", "a rule that infers takes no guards: write `not` into its evidence"
