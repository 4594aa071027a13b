"""Why a rule or its job waits, in words: one sentence for each reason, the same for both."""

from datetime import timedelta

import pytest
from support.clock import T0

from defender.dashboard.views.holds import HOLDS
from kubenode.api.v1alpha1 import HoldReason
from kubenode.api.waits import WAITS, sentence
from kubenode.cli.job_means import holds_until, means
from remedy.remedier.decide import RuleWait, WaitReason
from remedy.remedier.messages import SENTENCES, TIMED
from remedy.remedier.messages import sentence as waits_for

SAME = {
    WaitReason.GROUP_WAIT: HoldReason.GROUP_WAIT,
    WaitReason.STARTUP: HoldReason.STARTUP_GRACE,
    WaitReason.COOLDOWN: HoldReason.COOLDOWN,
    WaitReason.GUARD: HoldReason.GUARD_TRUE,
    WaitReason.DISAGREE: HoldReason.ENGINES_DISAGREE,
}


@pytest.mark.parametrize("why", list(WaitReason))
def test_every_reason_of_a_rule_has_a_sentence_and_a_time_where_time_ends_it(
    why: WaitReason,
) -> None:
    until = T0 + timedelta(minutes=1)
    text = waits_for(RuleWait("runtime", why, until))
    assert text.startswith(str(why)) and SENTENCES[why] in text and len(SENTENCES[why]) > 20
    assert ("until 2026-01-01T12:01:00" in text) is (why in TIMED)
    assert "until" not in waits_for(RuleWait("runtime", why))


@pytest.mark.parametrize(("why", "reason"), list(SAME.items()))
def test_rule_and_job_say_the_same(why: WaitReason, reason: HoldReason) -> None:
    assert SENTENCES[why] == WAITS[str(reason)]
    assert HOLDS[str(reason)] == sentence(str(reason)) == means(str(reason))


@pytest.mark.parametrize("reason", list(HoldReason))
def test_every_hold_has_words_and_says_what_would_have_to_change(reason: HoldReason) -> None:
    assert means(reason)
    assert holds_until(reason, "", "n1") != holds_until("of another version", "", "n1")
