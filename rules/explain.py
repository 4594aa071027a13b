"""Explains why a rule matches a node or not: the rule's tree with the reading of each leaf.

With a program, derived facts of the node are explained by the rules that infer them. Derived facts
of a wider scope are read from FactSet.inferred. `explained` returns data, `explain` a text.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubenode.api.duration import format_duration
from kubenode.api.meta import format_time
from kubenode.api.recurrence import DUSK, opens_at
from kubenode.api.v1alpha1 import Expression, NodeRemedier
from kubenode.api.v1alpha1.leaves import AbsentLeaf, FactLeaf, Leaf
from kubenode.api.v1alpha1.window import TimeWindow
from rules.atoms import Atom, CountedFact, LeafReading, compares, describe, read
from rules.builtin import BUILTIN, SAME_FAULT
from rules.facts import FactSet
from rules.leaves.compare import PROBE
from rules.leaves.describe import windowed
from rules.leaves.result import earliest
from rules.leaves.state import STALE, ago, state
from rules.leaves.unread import UnreadReports
from rules.program import RuleProgram, RuleVersion, stored_facts
from rules.truth import Truth


@dataclass(frozen=True, slots=True)
class Explained:
    """A part of an expression. reading: of a leaf; None for all, any, not and derived facts.

    state: state of a leaf in words, with ages
    """

    text: str
    truth: Truth
    reading: LeafReading | None = None
    members: "tuple[Explained, ...]" = ()
    state: str = ""

    def to_json(self, now: datetime) -> dict[str, Any]:
        """Return JSON types, with ages in seconds and instants in ISO 8601."""
        document: dict[str, Any] = {"text": self.text, "truth": self.truth.name.lower()}
        if (reading := self.reading) is not None:
            document |= {"state": self.state, "evidence": reading.evidence}
            document["value"] = "infinite" if reading.value == math.inf else reading.value
            document |= {"source": reading.source} if reading.source else {}
            if (at := reading.observed_at) is not None:
                document |= {"observedAt": at.isoformat(), "ageSeconds": (now - at).total_seconds()}
            if reading.flips_at is not None:
                document["flipsAt"] = reading.flips_at.isoformat()
        if self.members:
            document["members"] = [member.to_json(now) for member in self.members]
        return document


@dataclass(frozen=True, slots=True)
class RuleExplanation:
    """What one rule concludes about one node.

    matches: truth of the evidence, without guards
    missing: what keeps the evidence from being true, one sentence each; empty if it is true
    blocked_by: guards that hold the rule back because they are true, one sentence each
    limits: when jobs may begin and how many there are, one sentence each
    unknown_guards: the same of guards that are not known, which hold it back only while their
        answer is awaited
    flips_at: when time alone changes a reading; None: never
    """

    rule: str
    mode: str
    node: str
    now: datetime
    selected: bool
    evidence: Explained | None = None
    guards: Explained | None = None
    missing: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    unknown_guards: tuple[str, ...] = ()
    flips_at: datetime | None = None
    limits: tuple[str, ...] = ()

    @property
    def matches(self) -> Truth:
        return Truth.FALSE if self.evidence is None else self.evidence.truth

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "rule": self.rule,
            "mode": self.mode,
            "node": self.node,
            "at": self.now.isoformat(),
            "selected": self.selected,
            "matches": self.matches.name.lower(),
            "missing": list(self.missing),
            "heldBy": list(self.blocked_by),
            "unknownGuards": list(self.unknown_guards),
            "limits": list(self.limits),
        }
        for name, tree in (("when", self.evidence), ("unless", self.guards)):
            document |= {name: tree.to_json(self.now)} if tree is not None else {}
        return document | ({"flipsAt": self.flips_at.isoformat()} if self.flips_at else {})

    def text(self) -> str:
        lines = [f"rule {self.rule}, mode {self.mode}, node {self.node}"]
        if self.evidence is None:
            return "\n".join([*lines, "  does not select this node"])
        lines += ["  when:", *_lines(self.evidence, self.now, 2)]
        if self.guards is not None:
            lines += ["  unless:", *_lines(self.guards, self.now, 2)]
        lines += (f"  {limit}" for limit in self.limits)
        if self.missing:
            lines += ["  does not match; what is missing:", *(f"    {m}" for m in self.missing)]
        elif self.blocked_by:
            heading = "  matches, but is held back by its guards:"
            lines += [heading, *(f"    {m}" for m in self.blocked_by)]
        elif self.unknown_guards:
            heading = "  matches; guards that are not known hold it back only while they are asked:"
            lines += [heading, *(f"    {m}" for m in self.unknown_guards)]
        else:
            lines.append("  matches")
        return "\n".join(lines)


def explain(
    rule: NodeRemedier, facts: FactSet, now: datetime, program: RuleProgram | None = None
) -> str:
    """Return a text for people: whether the rule matches, the tree, and what is missing."""
    return explained(rule, facts, now, program).text()


def explained(
    rule: NodeRemedier, facts: FactSet, now: datetime, program: RuleProgram | None = None
) -> RuleExplanation:
    """Explain a rule. program: has the rules that infer what this one reads; None: these are
    unknown.
    """
    spec = rule.spec
    about = (rule.metadata.name, spec.mode.value, facts.node, now)
    if not spec.nodes.matches(dict(facts.labels)):
        return RuleExplanation(*about, selected=False)
    reader = _TreeReader(facts, now, program)
    evidence = reader.tree(spec.when, rule)
    guards = reader.tree(spec.unless, rule) if spec.unless is not None else None
    missing_ = tuple(dict.fromkeys(_sentences(evidence, Truth.TRUE)))
    blockers, unknown = _list_blockers(guards)
    if not facts.fresh:
        missing_ = (f"needs a current view of the node: {STALE}",)
    flips_at = earliest(*_flips(evidence), *(_flips(guards) if guards is not None else ()))
    return RuleExplanation(
        *about,
        selected=True,
        evidence=evidence,
        guards=guards,
        missing=missing_,
        blocked_by=blockers,
        unknown_guards=unknown,
        flips_at=flips_at,
        limits=tuple(_limits(rule, now)),
    )


def _limits(rule: NodeRemedier, now: datetime) -> Iterator[str]:
    """Yield what `window` and `once` say, and how the windows stand."""
    spec = rule.spec
    if spec.window is not None:
        yield f"jobs begin in the window {_window(spec.window, now)}"
    for rung in spec.ladder or ():
        if rung.window is not None:
            yield f"rung {rung.name} begins in the window {_window(rung.window, now)}"
    if spec.once is not None:
        within = format_duration(spec.once.within)
        yield f"one job for each {spec.once.per} within {within}, not one for each node"


def _window(window: TimeWindow, now: datetime) -> str:
    match opens_at(window, now):
        case None:
            state = "open now"
        case at if at == DUSK:
            state = "never opens"
        case at:
            state = f"opens at {format_time(at)}"
    return f"{windowed(window)}: {state}"


def explain_tree(
    expression: Expression,
    facts: FactSet,
    now: datetime,
    rule: NodeRemedier | None = None,
    program: RuleProgram | None = None,
) -> Explained:
    """Explain an expression. rule: the expression's rule, for counts that differ from rule to
    rule.
    """
    return _TreeReader(facts, now, program).tree(expression, rule)


def missing(tree: Explained, wanted: Truth = Truth.TRUE) -> list[LeafReading]:
    """Return the leaves that keep `tree` from being `wanted`."""
    return [leaf.reading for leaf, _ in _lacking(tree, wanted) if leaf.reading is not None]


class _TreeReader:
    def __init__(self, facts: FactSet, now: datetime, program: RuleProgram | None) -> None:
        self._facts, self._now, self._inferring = facts, now, _inferring(program)
        atoms = program.atoms if program is not None else ()
        self._unread = {a.leaf.name: a.evidence for a in atoms if isinstance(a, UnreadReports)}

    def tree(self, expression: Expression, rule: NodeRemedier | None) -> Explained:
        if (leaf := expression.leaf) is not None:
            return self._leaf(leaf, rule)
        members = tuple(self.tree(member, rule) for member in expression.members)
        truths = [member.truth for member in members]
        if expression.not_ is not None:
            return Explained(NOT, ~truths[0], None, members)
        if expression.all is not None:
            return Explained(ALL, Truth.all(truths), None, members)
        return Explained("any of", Truth.any(truths), None, members)

    def _leaf(self, leaf: Leaf | AbsentLeaf, rule: NodeRemedier | None) -> Explained:
        atom: Atom = leaf
        if isinstance(leaf, FactLeaf) and leaf.name in self._inferring:
            return self._derived(leaf)
        if isinstance(leaf, FactLeaf) and leaf.name in SAME_FAULT and rule is not None:
            atom = CountedFact(_counted_as(rule, self._facts), leaf)
        elif isinstance(leaf, FactLeaf) and leaf.name in self._unread:
            atom = UnreadReports(leaf, self._unread[leaf.name])
        reading = read(atom, self._facts, self._now)
        stands = state(leaf, reading, self._facts, self._now)
        return Explained(describe(leaf), reading.truth, reading, (), stands)

    def _derived(self, leaf: FactLeaf) -> Explained:
        """Explain a derived fact by the rules that infer it."""
        members = tuple(self._inferred_by(rule, leaf) for rule in self._inferring[leaf.name])
        truth = Truth.any(member.truth for member in members)
        return Explained(describe(leaf), truth, None, members)

    def _inferred_by(self, rule: RuleVersion, leaf: FactLeaf) -> Explained:
        spec, name = rule.remedier.spec, rule.remedier.metadata.name
        assert spec.infer is not None
        if compares(leaf, spec.infer.value) is not Truth.TRUE:
            return Explained(f"rule {name} infers {spec.infer.value}", Truth.FALSE)
        if not spec.nodes.matches(dict(self._facts.labels)):
            return Explained(f"rule {name} does not select this node", Truth.FALSE)
        tree = self.tree(spec.when, rule.remedier)
        return Explained(f"rule {name} infers it", tree.truth, None, (tree,))


ALL, NOT = "all of", "not"
UNKNOWN_GUARD = "must be known to be false:"


def _inferring(program: RuleProgram | None) -> dict[str, list[RuleVersion]]:
    """Return the rules that infer each derived fact that is not stored."""
    by_fact: dict[str, list[RuleVersion]] = {}
    rules = [compiled.rule for compiled in program.rules] if program is not None else []
    stored = stored_facts(rules)
    for rule in rules:
        infer = rule.remedier.spec.infer
        if infer is not None and infer.fact not in stored and infer.fact not in BUILTIN:
            by_fact.setdefault(infer.fact, []).append(rule)
    return by_fact


def _counted_as(rule: NodeRemedier, facts: FactSet) -> str:
    """Return the id under which nodes with the same fault were counted for this rule."""
    name = rule.metadata.name
    ids = [id_ for id_ in facts.same_fault if id_.partition("@")[0] == name]
    exact = f"{name}@{rule.metadata.generation}"
    return exact if exact in ids else max(ids, default=name)


def _lacking(tree: Explained, wanted: Truth) -> list[tuple[Explained, Truth]]:
    """Return the leaves that keep `tree` from being `wanted`, each with the truth it needs."""
    if tree.truth is wanted:
        return []
    if not tree.members:
        return [(tree, wanted)]
    below = ~wanted if tree.text == NOT else wanted
    return [pair for member in tree.members for pair in _lacking(member, below)]


def _sentences(tree: Explained, wanted: Truth) -> list[str]:
    """Describe what has to change for `tree` to be `wanted`; alternatives form one sentence."""
    if tree.truth is wanted:
        return []
    if not tree.members:
        return [_needs(tree, wanted)]
    below = ~wanted if tree.text == NOT else wanted
    groups = [sentences for member in tree.members if (sentences := _sentences(member, below))]
    every = (tree.text == ALL) == (wanted is Truth.TRUE)
    if every or len(groups) < 2:
        return [sentence for sentences in groups for sentence in sentences]
    return ["one of: " + "; or ".join(" and ".join(sentences) for sentences in groups)]


def _list_blockers(guards: Explained | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what holds the rule back, and what would if it became known to be true."""
    if guards is None:
        return (), ()
    sentences = tuple(dict.fromkeys(_sentences(guards, Truth.FALSE)))
    if guards.truth is not Truth.TRUE:
        return (), sentences
    certain = tuple(text for text in sentences if not text.startswith(UNKNOWN_GUARD))
    return certain or sentences, ()


def _needs(leaf: Explained, wanted: Truth) -> str:
    if leaf.reading is None:
        return f"needs another answer: {leaf.text}"
    verb = "must be false:" if leaf.truth is Truth.TRUE else UNKNOWN_GUARD
    verb = "needs" if wanted is Truth.TRUE else verb
    return f"{verb} {leaf.text}{f'; {leaf.state}' if leaf.state else ''}"


def _flips(tree: Explained) -> list[datetime | None]:
    own = [tree.reading.flips_at] if tree.reading is not None else []
    return own + [at for member in tree.members for at in _flips(member)]


def _lines(tree: Explained, now: datetime, depth: int) -> list[str]:
    mark = {Truth.TRUE: "+", Truth.FALSE: "-", Truth.UNKNOWN: "?"}[tree.truth]
    text = tree.text
    if tree.reading is not None:
        detail = f": {tree.state}" if tree.state not in ("", STALE) else ""
        text = f"{text}{detail}{_source(tree.reading, now)}"
    below = [line for member in tree.members for line in _lines(member, now, depth + 1)]
    return [f"{'  ' * depth}{mark} {text}", *below]


def _source(reading: LeafReading, now: datetime) -> str:
    if reading.observed_at is None:
        return ""
    if reading.source == PROBE:
        return ""  # the finding tells its age
    return f" [{reading.source}, {ago(now - reading.observed_at)} ago]"
