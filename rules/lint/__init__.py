"""Finds errors and unwise choices in rules that compile: `lint`. Pure.

Errors are rules that must not be loaded: a repair that nothing can prove, an isolation without an
exit, a guard used as evidence. Advice is for people and never keeps a rule out.
"""

from rules.lint.codes import CODES, LintCode, LintSeverity
from rules.lint.finding import LintFinding
from rules.lint.linter import lint

__all__ = ["CODES", "LintCode", "LintFinding", "LintSeverity", "lint"]
