"""One finding about one rule."""

from dataclasses import dataclass

from rules.lint.codes import CODES, Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """`rule` is the NodeRemedier's name, `path` the field in it, such as `spec.when.all[2].event`.

    message  what is wrong there: what to do
    """

    rule: str
    path: str
    severity: Severity
    code: str
    message: str


Remark = tuple[str, str, str]
"""Path, code and message: a finding of a rule that is known."""


def finding(rule: str, remark: Remark) -> Finding:
    path, code, message = remark
    return Finding(rule, path, CODES[code].severity, code, message)
