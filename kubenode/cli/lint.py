"""`kubenode rules lint`: checks rule files before they reach a cluster.

The checks and messages are those of admission (the API models), of the registry (which compiles
the rule) and of rules.lint. Each finding begins with its place in the file.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from kubenode.api.problems import field_path, list_problems
from kubenode.api.v1alpha1 import API_VERSION, DefenderPolicy, NodeRemedier
from kubenode.cli.cluster import connected
from kubenode.cli.documents import Field, UnreadableDocument, YamlDocument, files, is_test, read
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.fleet_rules import FleetRules, fleet_rules
from kubenode.cli.options import Findings
from kubenode.cli.sarif import FileFinding, sarif
from rules.lint import LintSeverity

LINTED: Mapping[str, type[NodeRemedier] | type[DefenderPolicy]] = {
    "NodeRemedier": NodeRemedier,
    "DefenderPolicy": DefenderPolicy,
}


@dataclass(slots=True)
class LintReport:
    """The valid rules with their documents, by name, and the findings about all files."""

    findings: list[FileFinding] = field(default_factory=list)
    rules: dict[str, tuple[YamlDocument, NodeRemedier]] = field(default_factory=dict)

    def tell(
        self, document: YamlDocument, at: Field, code: str, message: str, rule: str = ""
    ) -> None:
        line, column = document.place(at)
        path = field_path(at) if at else ""
        self.findings.append(FileFinding(document.path, line, column, rule, path, code, message))

    def count(self, severity: LintSeverity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def lint(
    given: Sequence[Path],
    *,
    output: Findings = Findings.TEXT,
    strict: bool = False,
    known: Sequence[NodeRemedier] = (),
    conditions: Sequence[str] = (),
) -> Exit:
    """Print every finding on standard output, and a count on standard error.

    strict: advice counts as a finding too.
    known: rules that are loaded beside those of the files.
    conditions: condition types that nodes of the fleet report.
    """
    try:
        paths = files(given)
    except UnreadableDocument as error:
        raise Refusal(str(error), Exit.USAGE) from error
    report = judged(paths, known, conditions)
    _print(report, output)
    errors, advice = report.count(LintSeverity.ERROR), report.count(LintSeverity.ADVICE)
    typer.echo(_counted(errors, advice, _fine(report)), err=True)
    return Exit.FINDING if errors or (strict and advice) else Exit.FINE


async def beside(kubeconfig: str | None, context: str | None) -> FleetRules:
    """Read the rules of a cluster, to be loaded beside those of the files."""
    async with connected(kubeconfig, context) as kube:
        return await fleet_rules(kube)


def judged(
    paths: Sequence[Path], known: Sequence[NodeRemedier] = (), conditions: Sequence[str] = ()
) -> LintReport:
    """Check the files and return the sorted findings."""
    report = LintReport()
    for path in paths:
        _file(path, report)
    beside = [rule for rule in known if rule.metadata.name not in report.rules]
    _compile(report, beside)
    _lint(report, beside, conditions)
    report.findings.sort(key=lambda finding: (str(finding.file), finding.line, finding.column))
    return report


# -- reading ---------------------------------------------------------------------------------------


def _file(path: Path, report: LintReport) -> None:
    try:
        if is_test(path):
            raise UnreadableDocument(f"{path}: tests of rules: run `kubenode rules test {path}`")
        for document in read(path):
            _document(document, report)
    except UnreadableDocument as error:
        report.findings.append(_unreadable(path, str(error)))


def _unreadable(path: Path, text: str) -> FileFinding:
    """Build a finding from a message `file: what` or `file:line:col: what`."""
    rest = text.removeprefix(f"{path}:")
    line, _, more = rest.partition(":")
    column, _, what = more.partition(":")
    if line.isdecimal() and column.isdecimal():
        return FileFinding(path, int(line), int(column), "", "", "unreadable", what.strip())
    return FileFinding(path, 1, 1, "", "", "unreadable", rest.strip())


def _document(document: YamlDocument, report: LintReport) -> None:
    data = document.data
    if not isinstance(data, Mapping):
        text = "no object: write apiVersion, kind, metadata and spec"
        report.tell(document, (), "unreadable", text)
        return
    kind = data.get("kind")
    model = LINTED.get(str(kind))
    if model is None:
        text = f"{kind!r} cannot be checked here: write {' or '.join(LINTED)}"
        report.tell(document, ("kind",), "unreadable", text)
        return
    if data.get("apiVersion") != API_VERSION:
        text = f"{data.get('apiVersion')!r} is not known: write {API_VERSION}"
        report.tell(document, ("apiVersion",), "invalid", text)
        return
    try:
        read_in = model.from_user(data)
    except ValidationError as error:
        named = _name(data)
        for problem in list_problems(error, model):
            report.tell(document, problem.path, "invalid", problem.text, named)
        return
    _named(document, read_in, report)


def _named(
    document: YamlDocument, read_in: NodeRemedier | DefenderPolicy, report: LintReport
) -> None:
    at, name = ("metadata", "name"), read_in.metadata.name
    if not name:
        report.tell(document, at, "invalid", "missing: give the rule a name")
    elif isinstance(read_in, NodeRemedier):
        if name in report.rules:
            first = report.rules[name][0].where(at)
            text = f"{name!r} is taken by {first}: choose another"
            report.tell(document, at, "taken-name", text, name)
        else:
            report.rules[name] = (document, read_in)


def _name(data: Mapping[str, Any]) -> str:
    metadata = data.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


# -- judging ---------------------------------------------------------------------------------------


def _compile(report: LintReport, known: Sequence[NodeRemedier]) -> None:
    """Add the findings of the compiler over all rules together, since inferred facts may form a
    cycle.

    Rules that do not compile are removed from the report's rules.
    """
    from rules.program import RuleVersion, compile_program

    own = [RuleVersion(name, rule) for name, (_, rule) in report.rules.items()]
    beside = [RuleVersion(f"{rule.metadata.name}@0", rule) for rule in known]
    for error in compile_program([*own, *beside]).rejected:
        if error.rule in report.rules:
            document, _ = report.rules.pop(error.rule)
            report.tell(document, parts(error.path), "uncompilable", error.message, error.rule)


def _lint(report: LintReport, known: Sequence[NodeRemedier], conditions: Sequence[str]) -> None:
    """Lint the rules that compile."""
    from remedy.job.model import ACTING
    from remedy.job.steps.table import unsupported
    from rules.lint import lint as lint_rules

    rules = [rule for _, rule in report.rules.values()]
    for finding in lint_rules(rules, known, conditions=conditions):
        document, _ = report.rules[finding.rule]
        report.tell(document, parts(finding.path), finding.code, finding.message, finding.rule)
    for name, (document, rule) in report.rules.items():
        if why := unsupported(rule.spec.ladder or []):
            acts = rule.spec.mode in ACTING
            when = "" if acts else " once its mode is Enforce or Approve"
            text = f"{why}: the operator would refuse the rule{when}"
            report.tell(document, ("spec", "ladder"), "unavailable", text, name)


def parts(path: str) -> Field:
    """Return the keys of a path such as `spec.when.all[2].fact`."""
    keys = path.replace("[", ".").replace("]", "").split(".")
    return tuple(int(key) if key.isdigit() else key for key in keys if key)


# -- telling ---------------------------------------------------------------------------------------


def _print(report: LintReport, output: Findings) -> None:
    match output:
        case Findings.TEXT:
            for line in lines(report.findings):
                typer.echo(line)
        case Findings.JSON:
            typer.echo(json.dumps(_as_json(report), indent=2, ensure_ascii=False))
        case Findings.SARIF:
            typer.echo(json.dumps(sarif(report.findings, version("kubenode")), indent=2))


def lines(findings: Sequence[FileFinding]) -> Iterator[str]:
    """Render findings as compilers do: `file:line:col: error: field: what, what to do [code]`."""
    for finding in findings:
        field = f"{finding.field}: " if finding.field else ""
        place = f"{finding.file}:{finding.line}:{finding.column}"
        yield f"{place}: {finding.severity}: {field}{finding.message} [{finding.code}]"


def _as_json(report: LintReport) -> dict[str, Any]:
    return {
        "findings": [
            {
                "file": str(finding.file),
                "line": finding.line,
                "column": finding.column,
                "rule": finding.rule,
                "field": finding.field,
                "severity": finding.severity,
                "code": finding.code,
                "message": finding.message,
            }
            for finding in report.findings
        ],
        "errors": report.count(LintSeverity.ERROR),
        "advice": report.count(LintSeverity.ADVICE),
        "fine": _fine(report),
    }


def _fine(report: LintReport) -> int:
    """Count the valid rules without an error."""
    bad = {finding.rule for finding in report.findings if finding.severity is LintSeverity.ERROR}
    taken = {finding.rule for finding in report.findings if finding.code == "taken-name"}
    return sum(name not in bad - taken for name in report.rules)


def _counted(errors: int, advice: int, fine: int) -> str:
    counts = [f"{errors} error{'s' if errors != 1 else ''}"] if errors else []
    counts += [f"{advice} piece{'s' if advice != 1 else ''} of advice"] if advice else []
    return f"{', '.join(counts)}{'; ' if counts else ''}{fine} rule{'s' if fine != 1 else ''} fine"
