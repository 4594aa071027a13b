"""Files of rule tests: what they may say, and what a mistake is told, with its place."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from kubenode.cli.documents import files
from kubenode.cli.exits import Refusal
from simulation.replay.junit import CaseResult, junit_xml
from simulation.replay.testfile import RACK, ZONE, RuleTestCase, cases
from simulation.replay.testing import LoadedOnce, collected, format_result, run, run_case
from simulation.replay.timeline import Wrong

RULE = """\
apiVersion: kubenode.io/v1alpha1
kind: NodeRemedier
metadata: {name: sick}
spec:
  mode: DryRun
  faultClass: sick
  nodes: {all: true}
  when: {condition: {type: Sick, status: "True", for: 30s}}
  unless: {fact: {name: maintenance.active}}
  groupWait: 0s
  ladder: [{name: boot, steps: [{cordon: {}}, {reboot: {}}]}]
"""
GOOD = """\
rules: [sick.yaml]
tests:
  - name: it is sick
    timeline:
      - {at: 10s, node: a, condition: {type: Sick, status: "True"}}
    expect:
      - {at: 39s, node: a, job: none}
      - {at: 40s, node: a, job: sick, rung: boot}
"""
NO_ENGINE: LoadedOnce | None = None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sick.yaml").write_text(RULE)
    return tmp_path


def written(folder: Path, text: str, name: str = "sick.test.yaml") -> list[RuleTestCase]:
    path = folder / name
    path.write_text(dedent(text))
    return cases(path)


def failures(folder: Path, expect: str, *, timeline: str = "", more: str = "") -> list[str]:
    """Of one test of `expect` after a node is sick from second 0 on."""
    sick = '{at: 0s, node: a, condition: {type: Sick, status: "True"}}'
    text = f"rules: [sick.yaml]\nmode: Enforce\n{more}\ntests:\n- name: x\n"
    text += f"  timeline: [{sick}{', ' if timeline else ''}{timeline}]\n  expect: [{expect}]\n"
    (case,) = written(folder, text)
    return [f"{f.place}: {f.difference.message}" for f in run(case, NO_ENGINE)]


def test_a_good_file_holds(folder: Path) -> None:
    (case,) = written(folder, GOOD)
    assert run(case, NO_ENGINE) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("tests:", "test:", ":2:1: test: "),
        ("expect:", "expects:", ":6:5: tests[0].expects: "),
        ("job: none", "jobb: none", ":7:28: tests[0].expect[0].jobb: "),
        ("at: 39s", "at: soon", ":7:10: tests[0].expect[0].at: 'soon' is no duration"),
        ("node: a, job: none", "node: z, job: none", "'z' is no node of this test: there are a"),
        ("node: a, condition", "node: z, condition", ":5:19: tests[0].timeline[0].node: 'z' is"),
        ("job: none", "", "nothing is expected: write job, facts"),
        ("rules: [sick.yaml]\n", "", "rules: required and missing: name the files"),
        ('status: "True"', "status: True", "condition.status: true is not known"),
        ("rung: boot", "openJobs: 1", "openJobs is of the whole fleet: leave `node` out"),
        ("expect:\n", "nodes: [{name: a}, {name: a}]\n    expect:\n", "two nodes are named 'a'"),
        ("expect:\n", "nodes: [{count: 3}]\n    expect:\n", "`count` and `prefix` go together"),
        ("expect:\n", "nodes: [{}]\n    expect:\n", "not one of both: write `name`, or"),
        ("  - name: it is sick\n", "  - ? [\n", "not valid YAML"),
    ],
)
def test_a_mistake_is_told_with_its_place(folder: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(Wrong) as found:
        written(folder, GOOD.replace(old, new, 1))
    assert told.replace("openJobs is", "open_jobs is") in str(found.value)
    assert str(folder / "sick.test.yaml") in str(found.value)


def test_all_mistakes_of_all_files_are_told_at_once(folder: Path) -> None:
    for name in ("one.test.yaml", "two.test.yaml"):
        (folder / name).write_text(GOOD.replace("job: none", "jbo: none"))
    with pytest.raises(Refusal, match=r"(?s)one\.test\.yaml:7.*two\.test\.yaml:7"):
        collected([folder])


def test_nodes_are_made_alike_or_in_turn(folder: Path) -> None:
    text = GOOD.replace(
        "    timeline:",
        "    nodes:\n"
        "    - {name: a, zone: z1, rack: r1, controlPlane: true}\n"
        "    - {count: 4, prefix: b, spread: {x: [p, q]}, age: 2m, labels: {y: z}}\n"
        "    timeline:",
    )
    (case,) = written(folder, text)
    looks = {n: look for nodes in case.test.nodes for n, look in nodes.list_snapshots(case.start)}
    assert list(looks) == ["a", "b1", "b2", "b3", "b4"]
    assert (
        looks["a"].labels.items() >= {ZONE: "z1", RACK: "r1", "kubernetes.io/os": "linux"}.items()
    )
    assert [looks[f"b{n}"].labels["x"] for n in (1, 2, 3)] == ["p", "q", "p"]


def test_what_a_test_says_goes_before_what_its_file_says(folder: Path) -> None:
    text = GOOD.replace("tests:", "mode: Approve\noutcome: heals\ntests:").replace(
        "  - name: it is sick", "  - name: it is sick\n    mode: Enforce"
    )
    (case,) = written(folder, text)
    assert (case.settings.mode, case.settings.outcome) == ("Enforce", "heals")


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ("{at: 1m, node: a, job: none}", ":7:30: node a at 1m: job: expected none, but there is"),
        ("{at: 20s, node: a, job: open}", "job: expected open, there is none"),
        ("{at: 1m, node: a, job: other}", "expected one of other, is job"),
        ("{at: 1m, node: a, rung: replace}", "rung: expected replace, is boot"),
        ("{at: 1m, node: a, rung: 1}", "rung: expected 1, is 0"),
        ("{at: 20s, node: a, phase: Running}", "expected Running, but no job was made"),
        ("{at: 1m, node: a, steps: [reboot]}", "steps: expected [reboot], is [cordon]"),
        ("{at: 1m, node: a, hold: GuardTrue}", "hold: expected GuardTrue, is none"),
        ("{at: 20s, node: a, matches: [sick]}", "matches: expected [sick], is []"),
        ("{at: 1m, node: a, guards: {sick: true}}", "sick: expected true, is false"),
        ("{at: 20s, node: a, waits: {sick: Guard}}", "sick: expected Guard, is none"),
        ("{at: 1m, node: a, facts: {node.ready: false}}", "node.ready: expected false, is true"),
        ("{at: 1m, node: a, facts: {node.redy: true}}", "node.redy: no such fact"),
        ("{at: 1m, node: a, facts: {node.age: {below: 5}}}", "node.age: expected {below: 5.0}, is"),
        ("{at: 1m, node: a, facts: {disk.used_pct: 5}}", "disk.used_pct: expected 5, is unknown"),
        ("{at: 1m, node: a, jobs: 2}", "jobs: expected 2, is 1"),
        ("{at: 1m, node: a, asked: [disk]}", "asked: expected [disk], is []"),
        ("{at: 1m, node: a, cordoned: false}", "cordoned: expected false, is true"),
        ("{at: 1m, openJobs: 0}", "expected 0, is 1"),
        ("{at: 1m, totalJobs: 7}", "expected 7, is 1"),
        ("{at: 1m, held: {PerNode: 1}}", "expected {PerNode: 1}, is {}"),
    ],
)
def test_what_does_not_hold_is_told(folder: Path, expect: str, told: str) -> None:
    (found,) = failures(folder, expect)
    assert told in found


@pytest.mark.parametrize(
    "expect",
    [
        "{at: 1m, node: a, job: open, remedier: sick, rung: boot, phase: Running, hold: none}",
        "{at: 1m, node: a, rung: 0, startRung: 0, severity: Warning, mode: Enforce}",
        "{at: 1m, node: a, facts: {node.ready: true, cluster.nodes: 1, disk.used_pct: unknown}}",
        "{at: 1m, node: a, facts: {node.age: {above: 5}, node.kernel: {in: [6.12.0, x]}}}",
        "{at: 1m, node: a, matches: [sick], guards: {sick: false}, waits: {sick: OpenJob}}",
        "{at: 1m, node: [a], jobs: 1, asked: [], cordoned: true, steps: [cordon]}",
        "{at: 1m, openJobs: 1, totalJobs: 1, held: {}}",
        '{at: "2026-01-05T12:01:00Z", node: "*", job: sick}',
    ],
)
def test_what_holds_is_quiet(folder: Path, expect: str) -> None:
    assert failures(folder, expect) == []


def test_a_failure_says_why_no_job_was_made(folder: Path) -> None:
    text = GOOD.replace("at: 40s", "at: 35s").replace(", rung: boot", "")
    (case,) = written(folder, text)
    (failure,) = run(case, NO_ENGINE)
    assert failure.place.endswith("sick.test.yaml:8:28")
    explained = "\n".join(failure.difference.explain)
    assert "rule sick, mode DryRun, node a" in explained and "30s" in explained
    lines = list(format_result(CaseResult(case, [failure], 0.0)))
    assert lines[0].startswith("FAIL ") and "it is sick" in lines[0]


def test_outcomes_policies_and_failing_steps_are_chosen_by_the_file(folder: Path) -> None:
    healed = "{at: 30m, node: a, phase: Succeeded, closeReason: Proven}"
    assert failures(folder, healed, more="outcome: heals\npolicy: none") == []
    assert failures(folder, healed, more="outcome: {boot: heals}\npolicy: none") == []
    (folder / "p.yaml").write_text(
        "apiVersion: kubenode.io/v1alpha1\nkind: DefenderPolicy\nmetadata: {name: p}\n"
        "spec: {nodes: {all: true}, limits: [{scope: Cluster, maxConcurrent: 0}]}\n"
    )
    held = "{at: 5m, node: a, hold: ConcurrencyLimit, steps: []}"
    assert failures(folder, held, more="policy: p.yaml") == []
    failed = "{at: 10m, node: a, phase: NeedsHuman}"
    assert failures(folder, failed, more="fails: [reboot]\npolicy: none") == []
    with pytest.raises(Refusal, match="no DefenderPolicy in this file"):
        failures(folder, held, more="policy: sick.yaml")


def test_a_refused_rule_fails_its_tests_with_the_reason(folder: Path) -> None:
    (folder / "sick.yaml").write_text(RULE.replace("maintenance.active", "no.such"))
    (case,) = written(folder, GOOD)
    (failure,) = run(case, NO_ENGINE)
    assert "rule sick is refused: " in failure.difference.message


def test_a_node_may_come_later(folder: Path) -> None:
    late = "nodes: [{name: a}, {name: b, absent: true, conditions: {Sick: 'True'}}]\n    timeline:"
    text = GOOD.replace("timeline:", late).replace(
        "    expect:", "      - {at: 1h, node: b, lifecycle: created}\n    expect:"
    )
    text += "      - {at: 1h4m, node: b, job: none, waits: {sick: StartupGrace}}\n"
    text += "      - {at: 1h5m, node: b, job: sick}\n"
    (case,) = written(folder, text)
    assert run(case, NO_ENGINE) == []


def test_junit_names_files_tests_and_failures(folder: Path) -> None:
    text = GOOD.replace("it is sick", "it is <sick>").replace("at: 40s", "at: 35s")
    (case,) = written(folder, text)
    xml = junit_xml([CaseResult(case, run(case, NO_ENGINE), 0.25)])
    assert 'failures="1"' in xml and 'time="0.250"' in xml and "it is &lt;sick&gt;" in xml
    assert "<failure message=" in xml and "expected sick, there is none" in xml


CHECKED = """\
apiVersion: kubenode.io/v1alpha1
kind: NodeRemedier
metadata: {name: oops}
spec:
  mode: Enforce
  faultClass: oops
  nodes: {all: true}
  when: {event: {reason: Oops, count: 1, within: WINDOW}}
  groupWait: 0s
  onGiveUp: Hold
  ladder:
    - name: boot
      steps: [{cordon: {}}, {reboot: {}}]
      verify: &proof
        for: 1m
        timeout: 15m
        checks: [{agent: {action: RunCheck, check: disk-health}}]
    - name: empty
      steps: [{cordon: {}}, {reboot: {}}]
      verify: *proof
"""


@pytest.mark.parametrize(
    ("outcome", "window", "expect"),
    [
        ("stays", "3h", {"rung": "empty", "phase": "NeedsHuman"}),
        ("stays", "10m", {"rung": "empty", "closeReason": "FaultGone"}),
        ("heals", "3h", {"rung": "boot", "closeReason": "ChecksPassed"}),
        ("{boot: heals}", "3h", {"rung": "boot", "closeReason": "ChecksPassed"}),
        ("{empty: heals}", "3h", {"rung": "empty", "closeReason": "ChecksPassed"}),
    ],
)
@pytest.mark.exhaustive
def test_checks_pass_only_when_the_outcome_heals(
    folder: Path, outcome: str, window: str, expect: dict[str, Any]
) -> None:
    """An Event that leaves its window ends the job before its next rung, and proves nothing."""
    (folder / "oops.yaml").write_text(CHECKED.replace("WINDOW", window))
    keys = ", ".join(f"{key}: {value}" for key, value in expect.items())
    (case,) = written(
        folder,
        f"""\
        rules: [oops.yaml]
        policy: none
        outcome: {outcome}
        tests:
          - name: an oops
            timeline: [{{at: 0s, node: a, event: {{reason: Oops}}}}]
            expect: [{{at: 2h, node: a, {keys}, jobs: 1}}]
        """,
    )
    assert [f.difference.message for f in run(case, NO_ENGINE)] == []


def test_checks_pass_when_the_timeline_withdraws_the_evidence(folder: Path) -> None:
    """As after a repair by a person: without the report, no rung would help."""
    rule = CHECKED.replace(
        "{event: {reason: Oops, count: 1, within: WINDOW}}", "{condition: {type: Oops}}"
    )
    (folder / "oops.yaml").write_text(rule)
    (case,) = written(
        folder,
        """\
        rules: [oops.yaml]
        policy: none
        tests:
          - name: an oops
            timeline:
              - {at: 0s, node: a, condition: {type: Oops, status: "True"}}
              - {at: 10m, node: a, condition: {type: Oops, status: "False"}}
            expect:
              - {at: 9m, node: a, phase: Verifying, rung: boot}
              - {at: 2h, node: a, rung: boot, closeReason: Proven}
        """,
    )
    assert [f.difference.message for f in run(case, NO_ENGINE)] == []


GANG = "{migrate: {podPolicies: [{mode: Gang, gang: {groupBy: job}}]}}"


def test_what_is_not_simulated_is_named_for_rungs_that_ran(folder: Path) -> None:
    ladder = "ladder: [{name: boot, steps: [{cordon: {}}, %s{reboot: {}}]}]"
    (folder / "sick.yaml").write_text(
        RULE.replace(ladder % "", ladder % f"{GANG}, ").replace("DryRun", "Enforce")
    )
    (case,) = written(folder, GOOD)
    found, unsimulated = run_case(case, NO_ENGINE)
    clause = "pods with the policy Gang are evicted one by one"
    assert found == [] and unsimulated == (f"rule sick, rung boot: {clause}",)
    (quiet,) = written(
        folder, GOOD.replace('"True"', '"False"').replace("job: sick, rung: boot", "job: none")
    )
    assert run_case(quiet, NO_ENGINE) == ([], ())


def test_tests_in_a_folder_of_their_own_leave_only_rules_beside_them(folder: Path) -> None:
    """`kubectl apply -f FOLDER` reads each file there and no folder inside."""
    (folder / "tests").mkdir()
    text = GOOD.replace("[sick.yaml]", "[../sick.yaml]")
    (case,) = written(folder, text, "tests/sick.test.yaml")
    assert run(case, NO_ENGINE) == []
    assert [c.test.name for c in collected([folder])] == ["it is sick"]
    assert files([folder]) == [folder / "sick.yaml"]
    assert [p.name for p in folder.iterdir() if p.is_file()] == ["sick.yaml"]


def test_a_ruletest_beside_its_rules_is_a_test_and_no_manifest(folder: Path) -> None:
    """kubectl, also with -R, Argo CD and Flux read files with these suffixes alone."""
    (folder / "below").mkdir()
    (case,) = written(folder, GOOD.replace("[sick.yaml]", "[../sick.yaml]"), "below/sick.ruletest")
    assert run(case, NO_ENGINE) == []
    assert [c.test.name for c in collected([folder])] == ["it is sick"]
    assert files([folder]) == [folder / "sick.yaml"]
    manifests = [p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml", ".json", ".jsonnet")]
    assert manifests == [folder / "sick.yaml"]
