"""People's words in a job are signed by admission, and nobody signs for another."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import T0, FakeClock
from support.webhook_world import a_review

from kubenode.api.decisions import CANCELLED_BY, STARTED_BY, hears, unheard
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.runtime.admission.review import BadReview
from remedy.webhook.approvals import ApprovalCaller, signed
from remedy.webhook.decision_signer import Signer
from remedy.webhook.metrics import SigningMetrics
from simulation.apiserver.patches import json_patch

ALICE, BOT = ApprovalCaller("alice"), ApprovalCaller("bot", speaks=True)
APPROVED = {"decision": "Approve", "by": "bob", "at": "2026-01-01T00:00:00.000Z", "note": ""}


def a_job(*words: dict[str, Any], phase: str = "AwaitingApproval", **spec: Any) -> dict[str, Any]:
    ladder = [{"name": "a", "steps": [{"cordon": {}}]}, {"name": "b", "steps": [{"cordon": {}}]}]
    given = {"nodeName": "n1", "remedier": {"name": "r"}, "ladder": ladder, **spec}
    if words:
        given["approvals"] = list(words)
    metadata = {"name": "n1-0"}
    return {"metadata": metadata, "spec": given, "status": {"phase": phase}}


def marked(job: dict[str, Any], **marks: str) -> dict[str, Any]:
    keys = {"started": STARTED_BY, "cancelled": CANCELLED_BY}
    annotations = {keys[key]: who for key, who in marks.items()}
    return {**job, "metadata": {**job["metadata"], "annotations": annotations}}


def stored(
    new: dict[str, Any], old: dict[str, Any] | None, who: ApprovalCaller = ALICE
) -> dict[str, Any]:
    found = signed(new, old, who, T0)
    answer: dict[str, Any] = json_patch(new, list(found.patch))
    return answer


def annotations(job: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = job["metadata"].get("annotations", {})
    return found


class TestWords:
    def test_a_new_word_is_its_writers_at_this_time_whatever_they_wrote(self) -> None:
        forged = {"decision": "Approve", "by": "bob", "at": "2020-01-01T00:00:00Z", "note": "ok"}
        job = stored(a_job(forged), a_job())
        assert job["spec"]["approvals"] == [
            {"decision": "Approve", "by": "alice", "at": "2026-01-01T12:00:00.000Z", "note": "ok"}
        ]

    def test_what_was_said_before_stays_as_it_is(self) -> None:
        job = stored(a_job(APPROVED, {"decision": "Deny"}), a_job(APPROVED))
        assert job["spec"]["approvals"][0] == APPROVED
        assert job["spec"]["approvals"][1]["by"] == "alice"

    @pytest.mark.parametrize(
        "after",
        [
            (),
            ({**APPROVED, "by": "alice"},),
            ({**APPROVED, "note": "never said"},),
            ({"decision": "Deny"}, APPROVED),
        ],
        ids=["removed", "another author", "another note", "reordered"],
    )
    def test_what_was_said_cannot_be_changed_or_taken_back(
        self, after: tuple[dict[str, Any], ...]
    ) -> None:
        with pytest.raises(ValueError, match=r"spec\.approvals\[0\]: Approve by bob .* add a new"):
            signed(a_job(*after), a_job(APPROVED), ALICE, T0)

    def test_a_default_that_the_server_fills_in_is_no_change(self) -> None:
        short = {key: APPROVED[key] for key in ("decision", "by", "at")}
        assert signed(a_job(APPROVED), a_job(short), ALICE, T0).patch == ()

    def test_a_write_that_says_nothing_is_left_alone(self) -> None:
        assert signed(a_job(APPROVED), a_job(APPROVED), ALICE, T0).patch == ()

    def test_a_spokesman_says_for_whom_and_is_named_beside(self) -> None:
        job = stored(a_job({"decision": "Approve", "by": "carol"}), a_job(), BOT)
        assert job["spec"]["approvals"][0]["by"] == "carol through bot"
        own = stored(a_job({"decision": "Approve"}), a_job(), BOT)
        assert own["spec"]["approvals"][0]["by"] == "bot"

    def test_a_name_that_is_too_long_is_cut_and_its_spokesman_stays(self) -> None:
        job = stored(a_job({"decision": "Approve", "by": "x" * 250}), a_job(), BOT)
        by = job["spec"]["approvals"][0]["by"]
        assert len(by) == 256 and by.endswith(" through bot")

    def test_a_caller_without_a_name_says_nothing(self) -> None:
        with pytest.raises(ValueError, match=r"userInfo\.username"):
            signed(a_job({"decision": "Approve"}), a_job(), ApprovalCaller(""), T0)

    @pytest.mark.parametrize(
        ("decision", "phase"),
        [
            ("Approve", "AwaitingPermit"),
            ("Approve", "Running"),
            ("Deny", "Verifying"),
            ("Next", "Running"),
            ("Retry", "Succeeded"),
            ("Close", "AwaitingApproval"),
        ],
    )
    def test_a_word_that_does_not_fit_the_phase_is_refused(self, decision: str, phase: str) -> None:
        with pytest.raises(ValueError, match=rf"approvals\[0\]\.decision: {decision}: .*{phase}"):
            signed(a_job({"decision": decision}, phase=phase), a_job(phase=phase), ALICE, T0)

    def test_next_may_name_a_rung_of_the_ladder(self) -> None:
        new = a_job({"decision": "Next", "rung": 1}, phase="NeedsHuman")
        job = stored(new, a_job(phase="NeedsHuman"))
        assert job["spec"]["approvals"][0]["rung"] == 1

    def test_on_the_last_rung_next_must_name_one(self) -> None:
        old, new = (a_job(*said, phase="NeedsHuman") for said in ((), ({"decision": "Next"},)))
        for job in (old, new):
            job["status"]["rung"] = 1
        with pytest.raises(ValueError, match="no rung follows: name one"):
            signed(new, old, ALICE, T0)

    @pytest.mark.parametrize(("decision", "rung"), [("Next", 2), ("Retry", 0)])
    def test_a_rung_that_is_not_there_is_refused(self, decision: str, rung: int) -> None:
        new = a_job({"decision": decision, "rung": rung}, phase="NeedsHuman")
        with pytest.raises(ValueError, match=f"rung {rung}"):
            signed(new, a_job(phase="NeedsHuman"), ALICE, T0)

    @pytest.mark.parametrize("broken", ["text", 5, {"a": 1}, [5], ["text"], [{"decision": "X"}]])
    def test_what_is_no_list_of_words_is_refused_by_us_or_by_the_schema(self, broken: Any) -> None:
        job = a_job()
        job["spec"]["approvals"] = broken
        try:
            assert signed(job, a_job(), ALICE, T0).decisions == ()
        except ValueError as error:
            assert str(error)


class TestAuthors:
    def test_a_job_of_no_rule_is_its_makers(self) -> None:
        job = stored(marked(a_job(remedier=None), started="bob"), None)
        assert annotations(job) == {STARTED_BY: "alice"}

    def test_nobody_is_the_maker_of_a_rules_job(self) -> None:
        assert annotations(stored(marked(a_job(), started="bob"), None)) == {}

    def test_a_new_job_brings_no_word_but_its_makers_approval(self) -> None:
        job = stored(a_job({"decision": "Approve", "by": "bob"}, remedier=None), None)
        assert job["spec"]["approvals"][0]["by"] == "alice"
        with pytest.raises(ValueError, match="birth"):
            signed(a_job({"decision": "Next"}, remedier=None), None, ALICE, T0)

    def test_who_cancels_is_noted(self) -> None:
        job = stored(a_job(cancel=True), a_job())
        assert annotations(job) == {CANCELLED_BY: "alice"}

    def test_the_notes_cannot_be_changed_afterwards(self) -> None:
        old = marked(a_job(cancel=True), started="bob", cancelled="bob")
        new = marked(a_job(cancel=True), started="eve")
        assert annotations(stored(new, old)) == {STARTED_BY: "bob", CANCELLED_BY: "bob"}

    def test_a_note_cannot_be_made_without_the_act(self) -> None:
        assert annotations(stored(marked(a_job(), cancelled="bob"), a_job())) == {}


class TestHearing:
    def test_each_phase_hears_what_it_waits_for(self) -> None:
        heard = {phase: hears(a_job(phase=phase)) for phase in JobPhase}
        assert heard[JobPhase.AWAITING_APPROVAL] == ("Approve", "Deny")
        assert heard[JobPhase.AWAITING_PERMIT] == ("Deny",)
        assert heard[JobPhase.NEEDS_HUMAN] == ("Next", "Retry", "Close")
        assert sum(map(bool, heard.values())) == 3

    def test_a_step_that_waits_for_a_person_hears_them(self) -> None:
        ladder = [{"name": "a", "steps": [{"waitForApproval": {}}, {"cordon": {}}]}]
        job = a_job(phase="Running", ladder=ladder)
        assert unheard(job, "Approve") == ""
        job["status"]["step"] = 1
        assert "it is Running" in unheard(job, "Approve")
        job["status"]["step"] = 2
        assert "it is Running" in unheard(job, "Approve")


class TestReviews:
    def signer(self) -> Signer:
        return Signer(FakeClock(), SigningMetrics(CollectorRegistry()), ["bot"])

    async def ask(self, signer: Signer, raw: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = (await signer.answer(raw, 5.0))["response"]
        return answer

    async def test_the_answer_is_a_patch(self) -> None:
        signer = self.signer()
        new = a_job({"decision": "Approve", "note": "go"})
        raw = a_review(new, a_job(), resource="remedyoperationjobs")
        said = await self.ask(signer, raw)
        assert said["allowed"] and said["patchType"] == "JSONPatch"
        [op] = json.loads(base64.b64decode(said["patch"]))
        assert op["value"][0]["by"] == "alice"

    async def test_what_was_said_stays(self) -> None:
        signer = self.signer()
        raw = a_review(a_job(), a_job(APPROVED), resource="remedyoperationjobs")
        said = await self.ask(signer, raw)
        assert not said["allowed"] and "what was said stays" in said["status"]["message"]

    async def test_a_word_that_is_none_is_refused_in_a_sentence(self) -> None:
        signer = self.signer()
        raw = a_review(a_job({"decision": "Perhaps"}), a_job(), resource="remedyoperationjobs")
        said = await self.ask(signer, raw)
        assert not said["allowed"] and "decision" in said["status"]["message"]

    async def test_other_resources_are_no_question_for_it(self) -> None:
        signer = self.signer()
        with pytest.raises(BadReview, match="noderemediers"):
            await signer.answer(a_review(a_job()), 5.0)


def test_two_replicas_sign_alike_but_for_the_time() -> None:
    new = a_job({"decision": "Approve"})
    first = signed(new, a_job(), ALICE, T0)
    second = signed(new, a_job(), ALICE, T0 + timedelta(seconds=1))
    assert [w.by for w in first.decisions] == [w.by for w in second.decisions]
