"""One finding about one rule."""

from dataclasses import dataclass

from rules.lint.codes import CODES, LintSeverity


@dataclass(frozen=True, slots=True)
class LintFinding:
    """`rule` is the NodeRemedier's name, `path` the field in it, such as `spec.when.all[2].event`.

    message  what is wrong there: what to do
    """

    rule: str
    path: str
    severity: LintSeverity
    code: str
    message: str


Remark = tuple[str, str, str]
"""Path, code and message: a finding of a rule that is known."""


def finding(rule: str, remark: Remark) -> LintFinding:
    path, code, message = remark
    return LintFinding(rule, path, CODES[code].severity, code, message)
