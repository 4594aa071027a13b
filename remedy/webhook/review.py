"""The answer about a rule: what every admission webhook answers, and what is told beside it."""

from dataclasses import dataclass

from kubenode.runtime.admission import review


@dataclass(frozen=True, slots=True)
class RuleVerdict(review.AdmissionVerdict):
    """accepted  why a rule above the limit was let through, "" where nothing was"""

    accepted: str = ""
