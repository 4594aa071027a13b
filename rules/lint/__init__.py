"""What is wrong, or unwise, with rules that compile: `lint`. Pure.

Errors are what must not be loaded: a repair that nothing could prove, an isolation without an exit,
a guard taken for evidence. Advice is what a person should look at; it never keeps a rule out.
"""

from rules.lint.codes import CODES, LintCode, LintSeverity
from rules.lint.finding import LintFinding
from rules.lint.linter import lint

__all__ = ["CODES", "LintCode", "LintFinding", "LintSeverity", "lint"]
