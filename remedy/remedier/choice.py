"""Turns the diagnosis of a node into a decision. Pure, with a little memory.

Production and simulation run this same code: the operator (remedy.remedier.controller) and
`kubenode rules test | replay | cases`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.api.v1alpha1.leaves import ConditionLeaf, Expression, ProbeLeaf
from kubenode.api.v1alpha1.remedyoperationjob import TriggerFact
from kubenode.runtime.kube.objects import Node
from remedy.remedier.decide import Candidate, Decision, Subject, decide
from remedy.remedier.latest import needed_since
from remedy.remedier.past import Past
from remedy.remedier.since import Matched
from rules.diagnose import Agreement, Diagnosis, Match
from rules.facts import FactSet
from rules.sources import waits_for_source
from rules.truth import Truth

MAX_AGE = timedelta(minutes=15)
"""Maximum age of conditions if no rule reads any."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision and its matches: rules with a ladder and known true evidence, in the order of
    choice.
    """

    decision: Decision
    matches: tuple[tuple[Match, NodeRemedier], ...] = ()

    def match(self, rule_id: str) -> Match:
        """Return the match of this rule."""
        return next(match for match, _ in self.matches if match.rule_id == rule_id)


@dataclass(slots=True)
class Mind:
    """What is remembered of one node between two decisions. Losing it in a restart only delays by a
    groupWait, or makes evidence without its own start time look younger.
    """

    first_match: datetime | None = None
    matched: Matched = field(default_factory=Matched)

    def choose(
        self,
        node: Node,
        booted_at: datetime | None,
        facts: FactSet,
        diagnosis: Diagnosis,
        active: Mapping[str, NodeRemedier],
        past: Sequence[Past],
        now: datetime,
        unjudged: int = 0,
        crowded: Collection[str] = (),
        cover: Callable[[Candidate], str] = lambda candidate: "",
    ) -> Choice:
        """Decide for one node.

        active: by rule id, rules that may create jobs
        past: as for `decide`
        unjudged: number of rules that have not evaluated every node, so that group facts are
            briefly unknown
        crowded: ids of rules that match too many nodes to act on one more
        cover: returns the job that acts for the node's group, "" for none
        """
        matches = matching(diagnosis, active)
        self.matched.see(diagnosis.matches, now)
        if not matches:
            self.first_match = None
            return Choice(Decision())
        self.first_match = self.first_match or now
        subject = Subject(
            name=node.metadata.name,
            uid=node.metadata.uid,
            created=node.metadata.creation_timestamp,
            booted_at=booted_at,
            first_match=self.first_match,
        )
        candidates = [
            _candidate(match, rule, self.matched.since(match.rule_id, rule, facts, now), facts, now)
            for match, rule in matches
        ]
        if unjudged:
            candidates = [
                replace(c, asking=c.asking or c.guards is Truth.UNKNOWN) for c in candidates
            ]
        if crowded:
            candidates = [replace(c, crowded=c.rule_id in crowded) for c in candidates]
        candidates = [
            replace(c, covered_by=cover(c)) if c.rule.spec.once is not None else c
            for c in candidates
        ]
        return Choice(decide(subject, candidates, past, now), tuple(matches))


def matching(
    diagnosis: Diagnosis, active: Mapping[str, NodeRemedier]
) -> list[tuple[Match, NodeRemedier]]:
    """Return the matches with known true evidence of active rules with a ladder."""
    return [
        (match, active[match.rule_id])
        for match in diagnosis.matches
        if match.evidence is Truth.TRUE
        and match.rule_id in active
        and active[match.rule_id].spec.ladder
    ]


def wanted_probes(diagnosis: Diagnosis) -> frozenset[str]:
    """Return each `probe.field` whose answer alone is missing, also for rules that open jobs
    follow.
    """
    return frozenset(name for match in diagnosis.matches for name in match.probes)


def probe_rules(
    diagnosis: Diagnosis, active: Mapping[str, NodeRemedier]
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return for each `probe.field` whose answer alone is missing the rules that need it: those
    that act, and those in DryRun. A rule that an open job follows acts.
    """
    acting: dict[str, set[str]] = {}
    dry: dict[str, set[str]] = {}
    for match in diagnosis.matches:
        rule = active.get(match.rule_id)
        would = rule is not None and rule.spec.mode is Mode.DRY_RUN
        for name in match.probes:
            needing = (dry if would else acting).setdefault(name, set())
            needing.add(match.rule_id.rpartition("@")[0])
    return acting, dry


def guards_of(
    match: Match, unless: Expression | None, facts: FactSet, now: datetime
) -> tuple[Truth, bool]:
    """Return the guards, and whether they are unknown only until a host has answered or failed to,
    or until a stale source is read again.

    An answer that has become too old must not let pass what it held back. So a guard stays unknown
    until a probe that was sent is answered.
    """
    if match.guards is not Truth.UNKNOWN or unless is None:
        return match.guards, False
    if waits_for_source(unless.leaves(), facts):
        return match.guards, True
    ages = {leaf.name: leaf.max_age for leaf in _probes_of(unless) if leaf.name in match.probes}
    answers = {name: facts.probes.get(name) for name in ages}
    asking = any(
        a is None or (a.value is not None and now >= a.answered_at + ages[name])
        for name, a in answers.items()
    )
    return match.guards, asking


def trigger(match: Match) -> list[TriggerFact]:
    """Return the readings as they are stored in the job."""
    known = {Truth.TRUE: True, Truth.FALSE: False}
    return [
        TriggerFact(
            atom=reading.evidence[:512],
            value=known.get(reading.truth),
            observed=reading.observed_at,
            source=(reading.source or "")[:128],
        )
        for reading in match.readings
    ]


def shortest_max_age(rules: Iterable[NodeRemedier]) -> timedelta:
    """Return the shortest silence of a detector after which some rule treats its conditions as
    unknown.
    """
    leaves = (leaf for rule in rules for leaf in rule.spec.when.unwrap_leaves())
    return min(
        (leaf.max_age for leaf in leaves if isinstance(leaf, ConditionLeaf)), default=MAX_AGE
    )


def _candidate(
    match: Match, rule: NodeRemedier, since: datetime, facts: FactSet, now: datetime
) -> Candidate:
    disputed = match.agreement in (Agreement.DISPUTED, Agreement.TAINTED)
    guards, asking = guards_of(match, rule.spec.unless, facts, now)
    events_at = needed_since(rule.spec.when, facts, now)
    return Candidate(match.rule_id, rule, guards, disputed, since, asking, events_at)


def _probes_of(expression: Expression) -> Iterable[ProbeLeaf]:
    return (leaf for leaf in expression.unwrap_leaves() if isinstance(leaf, ProbeLeaf))
