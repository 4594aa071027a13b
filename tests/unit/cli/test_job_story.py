"""A job's story as people read it: one file for each phase, in tests/data/stories.

KUBENODE_WRITE_STORIES=1 writes them; what changed is then looked at, and committed.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.job_stories import NAME, a_job, a_node, at, stories, told

from kubenode.api.v1alpha1 import HoldReason, Reason
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.cli.exits import Refusal
from kubenode.cli.explain_job import audit_lines
from kubenode.cli.job_means import holds_until, means
from kubenode.cli.job_story_text import WIDTH, text

FOLDER = Path(__file__).parents[2] / "data" / "stories"
STORIES = stories()


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_told_as_it_was_approved(name: str) -> None:
    lines = text(STORIES[name])
    path = FOLDER / f"{name}.txt"
    if os.environ.get("KUBENODE_WRITE_STORIES"):
        path.write_text("\n".join(lines) + "\n")
    assert lines == path.read_text().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)


def test_every_phase_has_its_story() -> None:
    assert {story.phase for story in STORIES.values()} == set(JobPhase)


@pytest.mark.parametrize("name", STORIES)
def test_programs_read_the_same(name: str) -> None:
    found = json.loads(json.dumps(STORIES[name].to_json()))
    assert (found["job"], found["phase"]) == (NAME, STORIES[name].phase)
    times = [moment["at"] for moment in found["timeline"]]
    assert times == sorted(times)


@pytest.mark.parametrize("reason", [*HoldReason, *(r for r in Reason if r is not Reason.GRANTED)])
def test_every_hold_says_what_it_means_and_what_would_change_it(reason: str) -> None:
    assert means(str(reason)).endswith(".")
    assert holds_until(str(reason), "zone=b", "n1")


def test_a_reason_of_a_later_version_is_told_all_the_same() -> None:
    hold = {"reason": "MoonPhase", "message": "the moon is full"}
    lines = "\n".join(text(told(a_job("AwaitingPermit", hold=hold), a_node())))
    assert "MoonPhase" in lines and "the moon is full" in lines


def commands(phase: str, **status: Any) -> list[str]:
    return [command for command, _ in told(a_job(phase, **status), a_node()).can]


class TestWhatYouCanDo:
    def test_a_job_that_needs_a_person_can_be_led_on_by_each_word(self) -> None:
        assert commands("NeedsHuman", rung=1) == [
            f"kubenode job next {NAME}",
            f"kubenode job retry {NAME}",
            f"kubenode job close {NAME}",
            f"kubenode job cancel {NAME}",
        ]

    def test_on_the_last_rung_next_must_name_one(self) -> None:
        assert f"kubenode job next {NAME} --rung RUNG" in commands("NeedsHuman", rung=2)

    def test_a_running_job_can_only_be_cancelled(self) -> None:
        assert commands("Running") == [f"kubenode job cancel {NAME}"]

    def test_a_job_that_succeeded_needs_nothing(self) -> None:
        assert commands("Succeeded") == []

    def test_a_job_that_is_cancelled_is_not_cancelled_again(self) -> None:
        job = a_job("Running", spec={"cancel": True})
        assert [command for command, _ in told(job, a_node()).can] == []


class TestAuditFile:
    def line(self, n: int, job: str = NAME) -> str:
        return json.dumps(
            {"audit": "kubenode.io/audit/v1", "at": at(n), "job": job, "what": f"{n}"}
        )

    def test_lines_of_the_job_are_found_in_turned_files_too(self, tmp_path: Path) -> None:
        path = tmp_path / "audit.jsonl"
        path.write_text("\n".join([self.line(3), self.line(4, "another")]) + "\n")
        (tmp_path / "audit.jsonl.1").write_text(self.line(2) + "\n")
        (tmp_path / "audit.jsonl.2").write_text(self.line(1) + "\n")
        assert [line["what"] for line in audit_lines(path, NAME)] == ["1", "2", "3"]

    def test_what_is_no_line_of_ours_is_passed_over(self, tmp_path: Path) -> None:
        path = tmp_path / "out.log"
        other = json.dumps({"job": NAME, "event": "job moved"})
        torn = self.line(1)[:40]
        path.write_text("\n".join([f"{NAME} text", other, torn, "[]", self.line(5)]) + "\n")
        assert [line["what"] for line in audit_lines(path, NAME)] == ["5"]

    def test_a_file_that_is_not_there_is_told_with_its_flag(self, tmp_path: Path) -> None:
        with pytest.raises(Refusal, match=r"--audit: .*none"):
            list(audit_lines(tmp_path / "none", NAME))
