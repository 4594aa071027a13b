"""Scores predictions: computes every number of the report over labelled cases. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import Field, StrictInt, StrictStr

from simulation.cases.actions import WAIT_HUMAN, changing
from simulation.cases.form import Case, CaseForm, MustNot, Parsed, RepairClass, When

ANY_REPAIR, NOTIFY = "any_repair", "notify"


class Prediction(CaseForm):
    """What the product would do for one case.

    fault_class: that of the rule that won; `none` without one.
    repair_class: that of the first job; a class of level 0 without a job.
    plan: action IDs of the whole ladder in order, with probes; `wait_human` where a person decides.
    target: the node that is acted on; null for none.
    jobs: jobs that begin.
    max_parallel: nodes that are acted on at once.
    parsed: events that the parser returned.
    """

    id: StrictStr
    fault_class: StrictStr
    repair_class: RepairClass
    plan: list[StrictStr] = Field(default_factory=list)
    target: StrictStr | None = None
    jobs: StrictInt = 0
    max_parallel: StrictInt = 0
    parsed: Parsed | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with its prediction and the rules of the case that it violates."""

    case: Case
    prediction: Prediction
    missing: bool
    violations: tuple[str, ...]

    @property
    def class_right(self) -> bool:
        return self.prediction.repair_class in self.case.expected.allowed

    @property
    def right(self) -> bool:
        return self.class_right and not self.violations

    @property
    def fault_right(self) -> bool:
        expected = self.case.expected
        return self.prediction.fault_class in (expected.fault_class, *expected.fault_also_ok)

    @property
    def first_right(self) -> bool:
        return first_right(self.case.expected.first_action, self.prediction.plan)

    @property
    def acts(self) -> bool:
        return self.prediction.repair_class.acts

    @property
    def wants_act(self) -> bool:
        return self.case.expected.repair_class.acts

    @property
    def wants_quiet(self) -> bool:
        """Return whether no accepted class acts."""
        return not any(allowed.acts for allowed in self.case.expected.allowed)

    @property
    def wants_word(self) -> bool:
        """Return whether it is wrong to leave the node alone without a notification."""
        return RepairClass.NONE_OBSERVE not in self._allowed

    @property
    def silent(self) -> bool:
        """Return whether nothing was done and nobody was notified."""
        notified = NOTIFY in self.prediction.plan
        return self.prediction.repair_class is RepairClass.NONE_OBSERVE and not notified

    @property
    def is_excessive(self) -> bool:
        return self.prediction.repair_class.level > max(c.level for c in self._allowed)

    @property
    def under(self) -> bool:
        return self.prediction.repair_class.level < min(c.level for c in self._allowed)

    @property
    def _allowed(self) -> tuple[RepairClass, ...]:
        return self.case.expected.allowed


@dataclass(slots=True)
class Score:
    """Counts over some cases."""

    judged: list[Judged] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return len(self.judged)

    @property
    def right(self) -> int:
        return sum(j.right for j in self.judged)

    @property
    def class_right(self) -> int:
        return sum(j.class_right for j in self.judged)

    @property
    def fault_right(self) -> int:
        return sum(j.fault_right for j in self.judged)

    @property
    def first_right(self) -> int:
        return sum(j.first_right for j in self.judged)

    @property
    def violations(self) -> int:
        return sum(len(j.violations) for j in self.judged)

    @property
    def acts(self) -> int:
        return sum(j.acts for j in self.judged)

    @property
    def acts_right(self) -> int:
        return sum(j.acts and j.right for j in self.judged)

    @property
    def want_act(self) -> int:
        return sum(j.wants_act for j in self.judged)

    @property
    def want_act_hit(self) -> int:
        return sum(j.wants_act and j.right for j in self.judged)

    @property
    def want_quiet(self) -> int:
        return sum(j.wants_quiet for j in self.judged)

    @property
    def false_actions(self) -> int:
        return sum(j.wants_quiet and j.acts for j in self.judged)

    @property
    def want_word(self) -> int:
        return sum(j.wants_word for j in self.judged)

    @property
    def silent_misses(self) -> int:
        """Count the faults for which nothing was done and nobody was notified."""
        return sum(j.wants_word and j.silent for j in self.judged)

    @property
    def excessive_count(self) -> int:
        return sum(j.is_excessive for j in self.judged)

    @property
    def under(self) -> int:
        return sum(j.under for j in self.judged)

    @property
    def missing(self) -> int:
        return sum(j.missing for j in self.judged)

    @property
    def parsed(self) -> tuple[int, int]:
        """Return (right, all) of the cases that say what the parser must return."""
        relevant = [j for j in self.judged if j.case.expected.parsed is not None]
        return sum(j.prediction.parsed == j.case.expected.parsed for j in relevant), len(relevant)

    @property
    def precision(self) -> float | None:
        """Return the share of right acts among all acts; None without acts."""
        return self.acts_right / self.acts if self.acts else None

    @property
    def recall(self) -> float | None:
        """Return the share of right acts among the cases that want one; None without such cases."""
        return self.want_act_hit / self.want_act if self.want_act else None

    @property
    def wrong(self) -> list[Judged]:
        return [j for j in self.judged if not j.right]

    def per(self, key: str) -> dict[str, "Score"]:
        """Return a score for each value of a field or property of the case, sorted."""
        groups: dict[str, list[Judged]] = {}
        for judged in self.judged:
            groups.setdefault(str(getattr(judged.case, key)), []).append(judged)
        return {name: Score(groups[name]) for name in sorted(groups)}


def score(cases: Iterable[Case], predictions: Mapping[str, Prediction]) -> Score:
    """Score the predictions. A case without one counts as if nothing was done."""
    return Score([judge(case, predictions.get(case.id)) for case in cases])


def judge(case: Case, prediction: Prediction | None) -> Judged:
    effective = prediction or Prediction(
        id=case.id, fault_class="none", repair_class=RepairClass.NONE_OBSERVE
    )
    return Judged(case, effective, prediction is None, tuple(_violations(case, effective)))


def _violations(case: Case, prediction: Prediction) -> Iterable[str]:
    expected = case.expected
    alone = by_itself(prediction.plan)
    for rule in expected.must_not:
        if broken(rule, alone, prediction.max_parallel):
            yield f"{rule.action}/{rule.when}"
    if expected.max_jobs is not None and prediction.jobs > expected.max_jobs:
        yield "jobs"
    wrong_node = expected.names_target and prediction.target != expected.target
    if wrong_node and prediction.repair_class.acts:
        yield "target"


def by_itself(plan: Sequence[str]) -> list[str]:
    """Return the part of a plan before a person is asked."""
    return list(plan[: plan.index(WAIT_HUMAN)]) if WAIT_HUMAN in plan else list(plan)


def broken(rule: MustNot, plan: Sequence[str], max_parallel: int) -> bool:
    """Return whether the part of a plan before a person breaks the rule."""
    acts = [action for action in plan if changing(action)]
    hits = [action for action in acts if rule.action in (action, ANY_REPAIR)]
    if not hits:
        return False
    repairs = [action for action in acts if action not in ("cordon", "drain")]
    match rule.when:
        case When.ALWAYS | When.UNAPPROVED:
            return True
        case When.FIRST:
            return acts[0] == rule.action or repairs[:1] == [rule.action]
        case When.SOLE:
            return repairs == [rule.action]
        case When.REPEAT:
            return len(hits) > 1
        case When.UNVERIFIED:
            before = plan[: plan.index(hits[0])]
            return not any(action.startswith("probe_") for action in before)
        case When.MANY:
            return max_parallel > 1


def first_right(wanted: str, plan: Sequence[str]) -> bool:
    """Return whether the first change is the wanted action.

    Probes, diagnostics and notifications before it are never wrong.
    """
    first = next((i for i, action in enumerate(plan) if changing(action)), len(plan))
    if wanted in ("none", "suppress", "notify"):
        return first == len(plan)
    if not changing(wanted):
        return wanted in plan[:first]
    return list(plan[first : first + 1]) == [wanted]
