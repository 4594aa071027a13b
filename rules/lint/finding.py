"""One finding about one rule."""

from dataclasses import dataclass

from rules.lint.codes import CODES, LintSeverity


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding. rule: name of the NodeRemedier.

    path: field in the rule, such as `spec.when.all[2].event`
    message: what is wrong there, and what to do
    """

    rule: str
    path: str
    severity: LintSeverity
    code: str
    message: str


Remark = tuple[str, str, str]
"""Path, code and message of a finding about a known rule."""


def finding(rule: str, remark: Remark) -> LintFinding:
    path, code, message = remark
    return LintFinding(rule, path, CODES[code].severity, code, message)
