"""Decides whether a rule may be written, and what its author is told. Pure.

Rejected in every mode but Off: rules that do not compile, alone or with the existing rules, and
lint errors. Rejected in Enforce: a rule with a ladder, of any class, that would match more than a
share of the fleet now, unless its author accepts a number of nodes. Everything else is a warning:
Kube Defender's limits apply whatever a rule matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from remedy.registry.radius import ACCEPT, accepted_nodes, acts, limit_of
from remedy.webhook.estimate import RuleEstimate
from remedy.webhook.review import RuleVerdict
from rules.lint import LintFinding, LintSeverity


@dataclass(frozen=True, slots=True)
class Examination:
    """Findings about a candidate.

    refused: why it does not compile, "" if it does
    breaks: other rules that would be rejected because of it, by name, with the reason
    findings: lint findings about the candidate
    nodes: number of nodes in the fleet; None: unknown now, and `unknown` has the reason
    counts: estimates for the candidate and for rules that read its fact, by name
    affected: those other rules, by name
    """

    rule: NodeRemedier
    refused: str = ""
    breaks: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[LintFinding] = ()
    nodes: int | None = None
    unknown: str = ""
    counts: Mapping[str, RuleEstimate] = field(default_factory=dict)
    affected: Mapping[str, NodeRemedier] = field(default_factory=dict)


def judged(examination: Examination, most: int | str, user: str) -> RuleVerdict:
    """Return the verdict. `most`: nodes that a rule in Enforce may match now: a count or a
    percentage.
    """
    faults = _faults(examination)
    if examination.rule.spec.mode is Mode.OFF:
        switched_on = [f"switched on it would be refused: {fault}" for fault in faults]
        return RuleVerdict(True, warnings=switched_on)
    warnings = _advice(examination)
    if faults:
        return RuleVerdict(False, _joined(faults), warnings=warnings)
    if examination.nodes is None:
        return _unknown_size(examination, warnings)
    warnings = [*_sizes(examination), *warnings]
    audit = {"matching": f"{_matching(examination)} of {examination.nodes}"}
    limit = limit_of(examination.nodes, most)
    worst = _worst(examination)
    if worst is None or worst[1] <= limit:
        return RuleVerdict(True, warnings=warnings, audit=audit)
    name, matching = worst
    accepted = accepted_nodes(examination.rule)
    if isinstance(accepted, int) and matching <= accepted:
        why = (
            f"{user or 'somebody'} accepted with {ACCEPT}: {accepted} that rule {name} would match"
            f" {matching:,} of {examination.nodes:,} nodes, more than {limit:,}"
        )
        return RuleVerdict(True, warnings=warnings, audit={**audit, "accepted": why}, accepted=why)
    return RuleVerdict(
        False, _too_many(examination, name, matching, limit, accepted), warnings=warnings
    )


def _faults(examination: Examination) -> list[str]:
    faults = [examination.refused] if examination.refused else []
    faults += [
        f"with it rule {name} would be refused: {why}"
        for name, why in sorted(examination.breaks.items())
    ]
    errors = (f for f in examination.findings if f.severity is LintSeverity.ERROR)
    return faults + [f"{f.path}: {f.message} ({f.code})" for f in errors]


def _joined(faults: Sequence[str]) -> str:
    shown = faults[:8]
    more = f"; and {len(faults) - len(shown)} more" if len(faults) > len(shown) else ""
    return "; ".join(shown) + more


def _advice(examination: Examination) -> list[str]:
    advice = (f for f in examination.findings if f.severity is LintSeverity.ADVICE)
    return [f"{f.path}: {f.message} ({f.code})" for f in advice]


def _sizes(examination: Examination) -> list[str]:
    assert examination.nodes is not None
    sentences = []
    for name, count in examination.counts.items():
        mine = name == examination.rule.metadata.name
        who = "would match" if mine else f"rule {name}, which reads its fact, would match"
        unknown = f"; unknown on {count.undecided:,}" if count.undecided else ""
        whole = "the whole fleet, " if count.selected == examination.nodes > 1 else ""
        sentences.append(
            f"{who} {count.matching:,} of {examination.nodes:,} nodes now, selects"
            f" {whole}{count.selected:,}{unknown}"
        )
    return sentences


def _matching(examination: Examination) -> int:
    own = examination.counts.get(examination.rule.metadata.name)
    return own.matching if own is not None else 0


def _worst(examination: Examination) -> tuple[str, int] | None:
    """Return the rule that would act on most nodes at once, and their number."""
    rules = {examination.rule.metadata.name: examination.rule, **examination.affected}
    acting = [
        (count.matching, name)
        for name, count in examination.counts.items()
        if rules[name].spec.mode is Mode.ENFORCE and acts(rules[name])
    ]
    if not acting:
        return None
    matching, name = max(acting)
    return name, matching


def _too_many(
    examination: Examination, name: str, matching: int, limit: int, accepted: int | str | None
) -> str:
    assert examination.nodes is not None
    mine = name == examination.rule.metadata.name
    who = "it" if mine else f"rule {name}, which reads its fact,"
    text = (
        f"spec.when: {who} would match {matching:,} of {examination.nodes:,} nodes now, more than"
        f" {limit:,}: narrow it, try it with `mode: DryRun` or `Approve`, or, if that is meant, set"
        f' annotation {ACCEPT}: "{matching}"'
    )
    if accepted is None:
        return text
    given = f"{accepted:,}" if isinstance(accepted, int) else f"{accepted[:20]!r}, no whole number"
    return f"{text} (it says {given})"


def _unknown_size(examination: Examination, warnings: Sequence[str]) -> RuleVerdict:
    """Return the verdict without an estimate: allowed only if nothing acts without a person."""
    rules = [examination.rule, *examination.affected.values()]
    enforced = any(rule.spec.mode is Mode.ENFORCE and acts(rule) for rule in rules)
    why = f"how many nodes it would match is not known now: {examination.unknown}"
    if not enforced:
        return RuleVerdict(True, warnings=[why, *warnings])
    message = f"{why}; apply it again in a moment, or with `mode: DryRun`"
    return RuleVerdict(False, message, code=503, warnings=warnings)
