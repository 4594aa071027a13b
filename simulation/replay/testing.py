"""`kubenode rules test`: runs rules against timelines, without a cluster and without waiting."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

import typer

from kubenode.api.v1alpha1 import NodeRemedier, Rung
from kubenode.cli.documents import is_test
from kubenode.cli.engine import engines
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import rules_from
from kubenode.cli.policy_files import policies_from
from kubenode.runtime.clock import SystemClock
from rules.diagnose import Diagnoser, Diagnosis, LoadReport
from rules.engines.crosscheck import CrossCheck
from rules.facts import FactSet
from rules.program import RuleVersion
from simulation.replay.expectations import Difference, differences
from simulation.replay.hosts import list_unsimulated
from simulation.replay.jobs import Heals
from simulation.replay.junit import CaseResult, junit_xml
from simulation.replay.moments import instant
from simulation.replay.records import JobRecord
from simulation.replay.signals import NodeSnapshot
from simulation.replay.testfile import Outcome, RuleTestCase, cases
from simulation.replay.timeline import Entry, Wrong
from simulation.replay.world import World, heals, stays

Engine = Literal["both", "reference"]


def command(
    files: Sequence[Path],
    *,
    junit: Path | None = None,
    output: Literal["table", "json"] = "table",
    engine: Engine = "both",
    only: str = "",
) -> Exit:
    """Run the tests of these files and folders. Raises Refusal with every problem in invalid files.

    only: a regular expression that must match in the name of a test; "" for all tests.
    """
    selected = chosen(collected(files), only)
    clock, results = SystemClock(), []
    with _diagnoser(engine) as diagnoser:
        for case in selected:
            began = clock.monotonic()
            failures, unsimulated = run_case(case, diagnoser)
            took = clock.monotonic() - began
            results.append(CaseResult(case, failures, took, unsimulated))
    if junit is not None:
        junit.write_text(junit_xml(results), encoding="utf-8")
    _tell(results, output)
    return Exit.FINDING if any(result.failures for result in results) else Exit.FINE


def collected(given: Sequence[Path]) -> list[RuleTestCase]:
    """Return the tests of all files, those of a folder in the order of file names.

    Raises Refusal.
    """
    paths: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if is_test(p))
            if not inside:
                names = "their names end in .test.yaml or .ruletest"
                text = f"{path}: no rule test in this folder: {names}"
                raise Refusal(text, Exit.USAGE)
            paths += inside
        elif path.is_file():
            paths.append(path)
        else:
            raise Refusal(f"{path}: no such file; check the name", Exit.USAGE)
    gathered, wrong = [], []
    for path in dict.fromkeys(paths):
        try:
            gathered += cases(path)
        except Wrong as error:
            wrong.append(str(error))
    if wrong:
        raise Refusal("\n".join(wrong), Exit.USAGE)
    return gathered


def chosen(candidates: Sequence[RuleTestCase], only: str) -> Sequence[RuleTestCase]:
    if not only:
        return candidates
    try:
        pattern = re.compile(only)
    except re.error as error:
        raise Refusal(f"--run {only!r} is no regular expression: {error}", Exit.USAGE) from error
    matching = [case for case in candidates if pattern.search(case.test.name)]
    if not matching:
        raise Refusal(f"--run {only!r}: no test has such a name", Exit.USAGE)
    return matching


@contextlib.contextmanager
def _diagnoser(engine: Engine) -> Iterator["LoadedOnce | None"]:
    if engine == "reference":
        yield None
        return
    with engines() as both:
        yield LoadedOnce(both)


class LoadedOnce:
    """Both rule engines. Rules are loaded only when they change, since loading starts a process.

    A diagnosis is reused only for the same facts, so tests do not affect each other.
    """

    def __init__(self, both: Diagnoser) -> None:
        self._both, self._report = both, LoadReport()
        self._rules: list[RuleVersion] | None = None

    @property
    def check(self) -> CrossCheck:
        return self._both.check

    def load(self, rules: Sequence[RuleVersion]) -> LoadReport:
        if self._rules != list(rules):
            self._rules, self._report = list(rules), self._both.load(rules)
        return self._report

    def diagnose(self, factsets: Sequence[FactSet], now: datetime) -> list[Diagnosis]:
        return self._both.diagnose(factsets, now)


@dataclass(frozen=True, slots=True)
class Failure:
    """A difference and its place.

    place: `file:line:col` of the key that does not hold.
    """

    place: str
    difference: Difference


def run(case: RuleTestCase, both: LoadedOnce | None) -> list[Failure]:
    """Run one test and return what does not hold. Raises Refusal for invalid rules or policies."""
    return run_case(case, both)[0]


def run_case(case: RuleTestCase, both: LoadedOnce | None) -> tuple[list[Failure], tuple[str, ...]]:
    """Run one test. Return what does not hold, and what its jobs did that is not simulated.

    Raises Refusal for invalid rules or policies.
    """
    diagnoser = None if case.settings.engines == "reference" else both
    world = _world(case, diagnoser)
    if world.rejected:
        place = case.where()
        refused = [
            Failure(place, Difference("rules", f"rule {name} is refused: {why}"))
            for name, why in sorted(world.rejected.items())
        ]
        return refused, ()
    before = _disagreements(diagnoser)
    _populate(case, world)
    failures = []
    order = sorted(
        range(len(case.test.expect)),
        key=lambda n: instant(case.test.expect[n].at, case.start),
    )
    for n in order:
        expect = case.test.expect[n]
        world.run_until(instant(expect.at, case.start))
        failures += [
            Failure(case.where("expect", n, difference.key), difference)
            for difference in differences(world, expect)
        ]
    if (differ := _disagreements(diagnoser) - before) > 0:
        text = f"the rule engines do not agree in {differ} places: this is a defect of KubeNode"
        failures.append(Failure(case.where(), Difference("engines", text)))
    return failures, tuple(describe_unsimulated(world.jobs))


def describe_unsimulated(jobs: Sequence[JobRecord]) -> Iterator[str]:
    """Yield in one sentence each what the jobs' rungs would do on a cluster and did not do here."""
    for job in jobs:
        ran = {rung.name for rung in job.rungs if rung.ran is not None}
        for rung in job.ladder:
            if rung.name in ran:
                for clause in list_unsimulated(rung):
                    yield f"rule {job.remedier}, rung {rung.name}: {clause}"


def _disagreements(diagnoser: LoadedOnce | None) -> int:
    return diagnoser.check.stats.disagreements if diagnoser is not None else 0


def _world(case: RuleTestCase, diagnoser: LoadedOnce | None) -> World:
    settings = case.settings
    rules = [_in_mode(rule, settings.mode) for rule in _rules(tuple(case.rules))]
    unlimited = settings.policy == "none"
    policies = []
    if settings.policy is not None and not unlimited:
        policies = policies_from(case.file.parent / settings.policy)
    return World(
        rules,
        policies=policies,
        unlimited=unlimited,
        diagnoser=diagnoser,
        start=case.start,
        heals=_outcome(settings.outcome),
        fails=settings.fails or (),
    )


@cache
def _rules(paths: tuple[Path, ...]) -> list[NodeRemedier]:
    """Read rules once: many tests use the same files."""
    return rules_from(paths)


def _in_mode(rule: NodeRemedier, mode: str | None) -> NodeRemedier:
    if mode is None or rule.spec.infer is not None:
        return rule
    spec = rule.spec.model_copy(update={"mode": type(rule.spec.mode)(mode)})
    return rule.model_copy(update={"spec": spec})


def _outcome(outcome: Outcome | None) -> Heals:
    if not isinstance(outcome, Mapping):
        return heals if outcome == "heals" else stays
    helps = {rung for rung, what in outcome.items() if what == "heals"}

    def by_rung(job: JobRecord, rung: Rung) -> bool:
        return rung.name in helps

    return by_rung


def _populate(case: RuleTestCase, world: World) -> None:
    absent: dict[str, NodeSnapshot] = {}
    for nodes in case.test.nodes:
        for name, snapshot in nodes.list_snapshots(case.start):
            if nodes.absent:
                absent[name] = _new(snapshot)
            else:
                world.add_node(name, snapshot, pods=nodes.pods)
            if nodes.probes:
                world.answer(name, nodes.probes)
    for entry in case.test.timeline:
        world.feed(*_insert_snapshots(entry, absent))


def _new(snapshot: NodeSnapshot) -> NodeSnapshot:
    """Return the snapshot of a node that appears later: it and its conditions begin then."""
    fresh = [condition.model_copy(update={"since": None}) for condition in snapshot.conditions]
    return snapshot.model_copy(update={"created": None, "conditions": fresh})


def _insert_snapshots(entry: Entry, absent: Mapping[str, NodeSnapshot]) -> list[Entry]:
    if entry.lifecycle != "created" or entry.look is not None:
        return [entry]
    return [
        entry.model_copy(update={"node": name, "look": absent.get(name)}) for name in entry.nodes
    ]


# -- telling ----------------------------------------------------------------------------------


def _tell(results: Sequence[CaseResult], output: str) -> None:
    import json

    failed = [result for result in results if result.failures]
    if output == "json":
        typer.echo(json.dumps([_as_json(result) for result in results], indent=1))
    else:
        for result in failed:
            for line in format_result(result):
                typer.echo(line)
    for line in dict.fromkeys(line for result in results for line in result.unsimulated):
        typer.echo(f"not simulated: {line}", err=True)
    files = len({result.case.file for result in results})
    took = sum(result.seconds for result in results)
    typer.echo(
        f"{len(results) - len(failed)} of {len(results)} tests in {files} files hold"
        f" ({took:.1f} s)",
        err=True,
    )


def format_result(result: CaseResult) -> Iterator[str]:
    """Yield the failures of one test as lines of text."""
    yield f"FAIL {result.case.file}: {result.case.test.name}"
    for failure in result.failures:
        yield f"  {failure.place}: {failure.difference.message}"
        for line in failure.difference.explain:
            yield f"      {line}"


def _as_json(result: CaseResult) -> dict[str, Any]:
    return {
        "file": str(result.case.file),
        "test": result.case.test.name,
        "passed": not result.failures,
        "seconds": round(result.seconds, 3),
        "notSimulated": list(dict.fromkeys(result.unsimulated)),
        "failures": [
            {
                "place": failure.place,
                "key": failure.difference.key,
                "message": failure.difference.message,
                "explain": list(failure.difference.explain),
            }
            for failure in result.failures
        ],
    }
