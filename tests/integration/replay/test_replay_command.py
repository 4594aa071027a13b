"""`kubenode rules test` and `kubenode rules replay` as commands: output, exit codes, mistakes."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard
from support.command import kubenode

from simulation.replay.timeline import entry

pytestmark = pytest.mark.integration
RULE = """\
apiVersion: kubenode.io/v1alpha1
kind: NodeRemedier
metadata: {name: sick}
spec:
  mode: Enforce
  faultClass: sick
  nodes: {all: true}
  when: {condition: {type: Sick, status: "True", for: 30s}}
  ladder: [{name: boot, steps: [{cordon: {}}, {reboot: {}}]}]
"""
TEST = """\
rules: [sick.yaml]
tests:
  - name: it is sick
    timeline:
      - {at: 10s, node: a, condition: {type: Sick, status: "True"}}
    expect:
      - {at: 1m, node: a, job: sick}
  - name: it is well
    expect:
      - {at: 1h, node: a, job: none}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sick.yaml").write_text(RULE)
    (tmp_path / "sick.test.yaml").write_text(TEST)
    lines = [entry(at="2026-03-01T10:00:00Z", node=n, lifecycle="created") for n in ("a", "b")]
    lines += [
        entry(at="2026-03-01T10:10:00Z", node="a", condition={"type": "Sick", "status": "True"}),
        entry(at="2026-03-01T10:10:20Z", node="b", condition={"type": "Sick", "status": "True"}),
        entry(at="2026-03-01T10:10:45Z", node="b", condition={"type": "Sick", "status": "False"}),
        entry(at="2026-03-01T10:20:00Z", end=True),
    ]
    (tmp_path / "rec.jsonl").write_text("".join(f"{e.line()}\n" for e in lines))
    return tmp_path


def test_tests_that_hold_end_with_0_and_both_engines_were_asked(folder: Path) -> None:
    xml = folder / "out.xml"
    result = kubenode("rules", "test", folder, "--junit", xml)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 of 2 tests in 1 files hold" in result.stderr and result.stdout == ""
    assert 'tests="2" failures="0"' in xml.read_text()


def test_a_test_that_fails_ends_with_1_place_and_reason(folder: Path) -> None:
    file = folder / "sick.test.yaml"
    file.write_text(TEST.replace("at: 1m", "at: 20s"))
    result = kubenode("rules", "test", file, "--engine", "reference")
    assert result.returncode == 1
    assert f"{file}:7:28: node a at 20s: job: expected sick, there is none" in result.stdout
    assert "rule sick, mode Enforce, node a" in result.stdout
    told = kubenode("rules", "test", file, "--engine", "reference", "-o", "json")
    found = {one["test"]: one["passed"] for one in json.loads(told.stdout)}
    assert found == {"it is sick": False, "it is well": True}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules: [gone.yaml]\ntests: [{name: x, expect: [{at: 1s, totalJobs: 0}]}]", "gone.yaml"),
        ("rules: [sick.yaml]\ntests: []", "too short"),
        ("rules: [sick.yaml", "not valid YAML"),
    ],
)
def test_files_that_are_wrong_end_with_2_and_a_sentence(folder: Path, text: str, told: str) -> None:
    (folder / "sick.test.yaml").write_text(text)
    result = kubenode("rules", "test", folder, "--engine", "reference")
    assert result.returncode == 2 and told in result.stderr
    assert "Traceback" not in result.stderr


def test_a_replay_tells_each_job_and_what_held_it(folder: Path) -> None:
    result = kubenode("rules", "replay", "--from", folder / "rec.jsonl", "--rules", folder)
    assert result.returncode == 0, result.stderr
    assert "a  sick (Enforce)" in result.stdout and "rung boot" in result.stdout
    assert "6 signals of 2 nodes in 20m" in result.stderr and "1 jobs" in result.stderr


def test_recordings_are_read_packed_merged_and_from_standard_input(folder: Path) -> None:
    text = (folder / "rec.jsonl").read_bytes()
    head, tail = text.splitlines(keepends=True)[:3], text.splitlines(keepends=True)[3:]
    (folder / "one.jsonl.gz").write_bytes(gzip.compress(b"".join(head)))
    (folder / "two.jsonl.zst").write_bytes(zstandard.compress(b"".join(tail)))
    both = ("--from", folder / "one.jsonl.gz", "--from", folder / "two.jsonl.zst")
    packed = kubenode("rules", "replay", *both, "--rules", folder, "-o", "json")
    plain = kubenode(
        "rules", "replay", "--from", folder / "rec.jsonl", "--rules", folder, "-o", "json"
    )
    assert packed.returncode == plain.returncode == 0, packed.stderr
    assert json.loads(packed.stdout) == json.loads(plain.stdout)


def test_two_rule_sets_are_compared(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    (other / "sick.yaml").write_text(RULE.replace("for: 30s", "for: 10s"))
    result = kubenode(
        "rules", "replay", "--from", folder / "rec.jsonl", "--rules", folder / "sick.yaml",
        "--against", other,
    )  # fmt: skip
    assert result.returncode == 1, result.stderr
    assert "~ 2026-03-01T10:10:30.000Z  a  sick" in result.stdout
    assert "made: 2026-03-01T10:10:30.000Z, against 2026-03-01T10:10:10.000Z" in result.stdout
    assert "- 2026-03-01T10:10:30.000Z  b  sick" in result.stdout
    same = kubenode(
        "rules", "replay", "--from", folder / "rec.jsonl", "--rules", folder / "sick.yaml",
        "--against", folder / "sick.yaml",
    )  # fmt: skip
    assert same.returncode == 0 and "no difference" in same.stdout


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("empty.jsonl", b"", "the recording is empty"),
        ("bad.jsonl", b'{"at": "1s"}\n', "bad.jsonl:1: "),
        ("cut.jsonl.zst", zstandard.compress(b"x" * 100000)[:20], "cut.jsonl.zst: is cut off"),
        (
            "back.jsonl",
            b'{"at":"9s","node":"a","cordon":true}\n{"at":"1s","node":"a","cordon":true}\n',
            "entry 2 is earlier than the one before it: sort the lines",
        ),
    ],
)
def test_a_recording_that_is_wrong_is_told(folder: Path, name: str, data: bytes, told: str) -> None:
    (folder / name).write_bytes(data)
    result = kubenode("rules", "replay", "--from", folder / name, "--rules", folder)
    assert result.returncode == 2 and told in result.stderr, result.stderr
    assert "Traceback" not in result.stderr


def test_a_recording_that_is_not_there_is_told(folder: Path) -> None:
    result = kubenode("rules", "replay", "--from", folder / "gone.jsonl", "--rules", folder)
    assert result.returncode == 2 and "cannot be read" in result.stderr
