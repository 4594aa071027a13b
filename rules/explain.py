"""Why a rule matches a node or does not: the rule's tree with what each leaf was found to be."""

from dataclasses import dataclass
from datetime import datetime

from kubenode.api.v1alpha1 import Expression, NodeRemedier
from rules.atoms import Reading, describe, read
from rules.facts import FactSet
from rules.truth import Truth


@dataclass(frozen=True, slots=True)
class Explained:
    """A part of an expression. `reading` is of a leaf, None of all, any and not."""

    text: str
    truth: Truth
    reading: Reading | None = None
    members: "tuple[Explained, ...]" = ()


def explain_tree(expression: Expression, facts: FactSet, now: datetime) -> Explained:
    """Derived facts are unknown here: they come of other rules."""
    if (leaf := expression.leaf) is not None:
        reading = read(leaf, facts, now)
        return Explained(describe(leaf), reading.truth, reading)
    members = tuple(explain_tree(member, facts, now) for member in expression.members)
    truths = [member.truth for member in members]
    if expression.not_ is not None:
        return Explained("not", ~truths[0], None, members)
    if expression.all is not None:
        return Explained("all of", Truth.all(truths), None, members)
    return Explained("any of", Truth.any(truths), None, members)


def missing(tree: Explained, wanted: Truth = Truth.TRUE) -> list[Reading]:
    """The leaves that keep `tree` from being `wanted`."""
    if tree.truth is wanted:
        return []
    if tree.reading is not None:
        return [tree.reading]
    below = ~wanted if tree.text == "not" else wanted
    return [reading for member in tree.members for reading in missing(member, below)]


def explain(rule: NodeRemedier, facts: FactSet, now: datetime) -> str:
    """A text for a person: whether the rule matches, the tree, and what is missing."""
    spec = rule.spec
    lines = [f"rule {rule.metadata.name}, mode {spec.mode.value}, node {facts.node}"]
    if not spec.nodes.matches(dict(facts.labels)):
        return "\n".join([*lines, "  does not select this node"])
    evidence = explain_tree(spec.when, facts, now)
    lines += ["  when:", *_lines(evidence, now, 2)]
    guards = explain_tree(spec.unless, facts, now) if spec.unless is not None else None
    if guards is not None:
        lines += ["  unless:", *_lines(guards, now, 2)]
    return "\n".join([*lines, *_verdict(evidence, guards)])


def _verdict(evidence: Explained, guards: Explained | None) -> list[str]:
    if evidence.truth is not Truth.TRUE:
        needed = [f"    {reading.evidence}" for reading in missing(evidence)]
        return ["  does not match; what is missing:", *needed]
    if guards is not None and guards.truth is not Truth.FALSE:
        held = [f"    {reading.evidence}" for reading in missing(guards, Truth.FALSE)]
        return ["  matches, but is held back by its guards:", *held]
    return ["  matches"]


def _lines(tree: Explained, now: datetime, depth: int) -> list[str]:
    mark = {Truth.TRUE: "+", Truth.FALSE: "-", Truth.UNKNOWN: "?"}[tree.truth]
    text = tree.text
    if tree.reading is not None:
        text = f"{text}: {tree.reading.evidence}{_source(tree.reading, now)}"
    below = [line for member in tree.members for line in _lines(member, now, depth + 1)]
    return [f"{'  ' * depth}{mark} {text}", *below]


def _source(reading: Reading, now: datetime) -> str:
    if reading.observed_at is None:
        return ""
    ago = (now - reading.observed_at).total_seconds()
    return f" [{reading.source}, {ago:.0f} s ago]"
