"""Releases of rules that need evidence, against any history (support.release_machine)."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from support.clock import FakeClock
from support.release_machine import STAGES, ReleaseMachine
from support.release_world import MemberDouble, Raw, make_rule
from support.rule_members import RuleMemberDouble

from kubenode.api.v1alpha1.release import ApprovalSubject, StageApprovalEntry

RULES = ("first", "second")


def make_installed(bit: int) -> Raw:
    """Return the same version in Enforce or DryRun, or another one in Enforce."""
    obj = make_rule("DryRun" if bit % 3 == 1 else "Enforce", name=RULES[bit % 2])
    if bit % 3 == 2:
        obj["spec"]["severity"] = "Critical"
    return obj


class RuleMachine(ReleaseMachine):
    """No rule version acts in a cluster without complete evidence from that cluster.

    In the first cluster of a stage no rule has fired, in the second one a person is about to change
    one, and in the third one nodes recover alone.
    """

    stage_settings: Mapping[str, Any] = {"rules": {"dryRunFirst": "10s"}}
    payload = tuple(make_rule("Enforce", name=name) for name in RULES)

    def make_member(self, name: str, clock: FakeClock) -> MemberDouble:
        member = RuleMemberDouble(name, name.partition("-")[0], clock)
        number = int(name[-1])
        member.firings, member.alone = min(number, 1), number // 2
        member.intruder = number == 1
        member.approved = lambda: self.is_enforce_approved(member.labels["stage"])
        return member

    def make_installed(self, bit: int) -> Raw:
        return make_installed(bit)

    @property
    def members(self) -> list[RuleMemberDouble]:
        members = self.world.members.values()
        return [member for member in members if isinstance(member, RuleMemberDouble)]

    def is_enforce_approved(self, stage: str) -> bool:
        approvals = self.world.store.get().spec.approvals
        return any(each.stage == stage and each.subject == "Enforce" for each in approvals)

    @rule(stage=st.sampled_from(STAGES))
    def person_approves_enforce(self, stage: str) -> None:
        if not self.is_enforce_approved(stage):
            given = self.world.store.get().spec.approvals
            entry = StageApprovalEntry(stage=stage, by="ann", subject=ApprovalSubject.ENFORCE)
            self.world.store.set_spec(approvals=[*given, entry])

    @rule(
        bit=st.integers(0, 8),
        lever=st.sampled_from(["firings", "alone", "conflicts"]),
        value=st.sampled_from([0, 0, 1, 3]),
    )
    def evidence_changes(self, bit: int, lever: str, value: int) -> None:
        setattr(self.choose(bit), lever, value)

    @rule(bit=st.integers(0, 8), observing=st.booleans())
    def operator_stops_or_starts(self, bit: int, observing: bool) -> None:
        self.choose(bit).set_observing(observing)

    @rule(bit=st.integers(0, 8))
    def person_is_about_to_change_a_rule(self, bit: int) -> None:
        self.choose(bit).intruder = True

    def choose(self, bit: int) -> RuleMemberDouble:
        return self.members[bit % len(self.members)]

    @invariant()
    def no_rule_acts_without_evidence(self) -> None:
        assert not [(each.name, each.violations) for each in self.members if each.violations]

    def teardown(self) -> None:
        if hasattr(self, "world"):
            for stage in STAGES:
                self.person_approves_enforce(stage)
            for member in self.members:
                member.firings, member.alone, member.conflicts = 1, 0, 0
                member.intruder = False
                member.set_observing(True)
        super().teardown()
        if hasattr(self, "world"):
            self.no_rule_acts_without_evidence()
