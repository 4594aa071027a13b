"""The answer to a review of a rule, with the fields that every admission webhook has."""

from dataclasses import dataclass

from kubenode.runtime.admission import review


@dataclass(frozen=True, slots=True)
class RuleVerdict(review.AdmissionVerdict):
    """Verdict on a rule. `accepted`: why a rule above the limit was admitted, "" if none was."""

    accepted: str = ""
