"""Findings as SARIF 2.1.0, which code hosts and editors show beside the lines.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) 2.1.0.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rules.lint import CODES, LintCode, LintSeverity

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {LintSeverity.ERROR: "error", LintSeverity.ADVICE: "warning"}


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A finding in a file.

    line, column: counted from 1.
    field: "" for the file as a whole.
    """

    file: Path
    line: int
    column: int
    rule: str
    field: str
    code: str
    message: str

    @property
    def severity(self) -> LintSeverity:
        return CODES[self.code].severity


def sarif(findings: Sequence[FileFinding], version: str) -> dict[str, Any]:
    """Build the whole log: one run of one tool."""
    codes = list(CODES)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "kubenode rules lint",
                        "version": version,
                        "rules": [_rule(code) for code in CODES.values()],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, codes.index(finding.code)) for finding in findings],
            }
        ],
    }


def _rule(code: LintCode) -> dict[str, Any]:
    return {
        "id": code.name,
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": code.why},
        "help": {"text": code.remedy},
        "defaultConfiguration": {"level": LEVELS[code.severity]},
    }


def _result(finding: FileFinding, index: int) -> dict[str, Any]:
    text = f"{finding.field}: {finding.message}" if finding.field else finding.message
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri(finding.file)},
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                }
            }
        ],
        "partialFingerprints": {"ruleAndField/v1": _fingerprint(finding)},
    }


def uri(path: Path) -> str:
    """Return the path relative to the working folder if it is inside, as code hosts need it."""
    try:
        near = path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path.resolve().as_uri()
    return quote(near.as_posix())


def _fingerprint(finding: FileFinding) -> str:
    """Return a fingerprint that stays the same when lines move."""
    parts = (finding.code, finding.rule, finding.field, finding.file.name)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
