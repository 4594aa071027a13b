"""A set's step against any history: machines come, fail, are repaired; people change their minds.

Whatever happens no limit is passed; once faults end, the set is as wanted.
"""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.clock import T0

from machine.machineset.members import (
    Crew,
    RemovalReason,
    SetMember,
    SetObservation,
    SetTarget,
    resolve_share,
)
from machine.machineset.step import SetPlan, step

ROUNDS = 400


class Set(RuleBasedStateMachine):
    @initialize(
        replicas=st.integers(0, 8),
        surge=st.sampled_from([0, 1, 2, "25%"]),
        sick=st.sampled_from([0, 1, 3, "20%", "50%"]),
        replacing=st.integers(1, 3),
        kept=st.integers(0, 2),
        outdated=st.booleans(),
    )
    def begin(
        self,
        replicas: int,
        surge: int | str,
        sick: int | str,
        replacing: int,
        kept: int,
        outdated: bool,
    ) -> None:
        self.now, self.made, self.frozen = T0, 0, ""
        self.crew: dict[str, SetMember] = {}
        self.wanted = SetTarget(
            replicas,
            max_surge=surge,
            max_unhealthy=sick,
            max_replacing=replacing,
            preserve_max=kept,
            replace_outdated=outdated,
        )

    # -- what the set does ------------------------------------------------------------------------

    @rule(granted=st.integers(0, 4), answered=st.integers(0, 9))
    def reconciles(self, granted: int, answered: int) -> None:
        self.reconcile(granted, answered)

    def reconcile(self, granted: int = 99, answered: int = 99) -> SetPlan:
        """granted: permits given; answered: machines made before the call is lost."""
        before = Crew(list(self.crew.values()))
        plan = step(self.wanted, SetObservation(self.now, list(self.crew.values()), self.frozen))
        self.check(before, plan)
        for name in plan.unmark:
            self.change(name, leaving=None)
        for name, why in plan.mark.items():
            self.change(name, leaving=why)
        for name, until in plan.preserve.items():
            self.change(name, preserved=until)
        for name in plan.remove[:granted]:
            self.change(name, deleting=True)
        for _ in range(min(plan.create, answered)):
            self.made += 1
            zone = "abc"[self.made % 3]
            name = f"s-{self.made}"
            self.crew[name] = SetMember(name, self.now + timedelta(seconds=self.made), zone)
        return plan

    def check(self, before: Crew, plan: SetPlan) -> None:
        w = self.wanted
        if plan.create:
            assert before.total + plan.create <= w.replicas + w.surge
            assert len(before.staying) + plan.create <= w.replicas
        for name in (*plan.mark, *plan.preserve, *plan.remove):
            assert not self.crew[name].hands_off
        assert not (self.frozen and plan.remove)
        live = len(before.staying) + len(before.leaving)
        too_many = len(before.sick) > resolve_share(w.max_unhealthy, live)
        replaced = [
            m
            for m in map(self.crew.__getitem__, (*plan.mark, *plan.preserve, *plan.remove))
            if RemovalReason.REPLACE in (m.leaving, plan.mark.get(m.name))
            or m.name in plan.preserve
            if m.preserved is None
        ]
        assert not (too_many and replaced)
        self.check_pace(before, plan)

    def check_pace(self, before: Crew, plan: SetPlan) -> None:
        """maxReplacing, and of those that work none before another works in its place."""
        w = self.wanted
        new = [n for n, why in plan.mark.items() if why is RemovalReason.REPLACE]
        new = [n for n in (*new, *plan.preserve) if self.crew[n].preserved is None]
        if new:
            under_way = sum(m.leaving is RemovalReason.REPLACE for m in before.leaving)
            busy = under_way + len(before.deleting) + len(before.coming)
            assert len(new) + busy <= w.max_replacing
        for name in plan.remove:
            member = self.crew[name]
            if (
                member.leaving is RemovalReason.REPLACE
                and not member.sick
                and member.preserved is None
            ):
                working = sum(m.available and not m.sick for m in before.staying)
                assert working >= w.replicas - (0 if w.surge else w.max_replacing)

    # -- what happens to it -----------------------------------------------------------------------

    def change(self, name: str, **facts: object) -> None:
        self.crew[name] = replace(self.crew[name], **facts)  # type: ignore[arg-type]

    def some(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.crew)))

    def comes_up(self, name: str) -> None:
        if not self.crew[name].deleting:
            well = {"initialized": True, "ready": True, "available": True}
            self.change(name, unhealthy="", failed=False, repair="", **well)

    @precondition(lambda self: self.crew)
    @rule(data=st.data(), how=st.sampled_from(["up", "up", "sick", "failed", "repair"]))
    def changes(self, data: st.DataObject, how: str) -> None:
        name = self.some(data)
        if how == "up":
            self.comes_up(name)
            return
        facts: dict[str, dict[str, object]] = {
            "sick": {"unhealthy": "NotReady"},
            "failed": {"unhealthy": "Failed", "failed": True},
            "repair": {"repair": "job-1"},
        }
        self.change(name, available=False, ready=False, **facts[how])

    @precondition(lambda self: self.crew)
    @rule(data=st.data(), what=st.sampled_from(["gone", "gone", "deleted", "first", "hands"]))
    def people_and_clouds(self, data: st.DataObject, what: str) -> None:
        name = self.some(data)
        if what == "gone" and self.crew[name].deleting:
            del self.crew[name]
        elif what == "deleted":
            self.change(name, deleting=True)
        elif what == "first":
            self.change(name, delete_first=True)
        elif what == "hands":
            self.change(name, hands_off=not self.crew[name].hands_off)

    @rule(replicas=st.integers(0, 8), surge=st.sampled_from([0, 1, 2]))
    def scaled(self, replicas: int, surge: int) -> None:
        self.wanted = replace(self.wanted, replicas=replicas, max_surge=surge)

    @rule(frozen=st.booleans(), hours=st.integers(0, 30))
    def time_passes(self, frozen: bool, hours: int) -> None:
        self.now += timedelta(hours=hours)
        self.frozen = "Leases stopped" if frozen else ""

    @rule()
    def class_changes(self) -> None:
        for name in self.crew:
            self.change(name, outdated=True)

    # -- and its end ------------------------------------------------------------------------------

    @invariant()
    def counts(self) -> None:
        crew = Crew(list(self.crew.values()))
        assert crew.total == len(crew.staying) + len(crew.leaving) + len(crew.deleting)

    def teardown(self) -> None:
        if not hasattr(self, "crew"):
            return
        self.frozen = ""
        self.wanted = replace(self.wanted, max_unhealthy="100%")
        for name in self.crew:
            self.change(name, hands_off=False, repair="")
        for _ in range(ROUNDS):
            self.now += timedelta(hours=1)
            plan = self.reconcile()
            for name in [name for name, m in self.crew.items() if m.deleting]:
                del self.crew[name]
            for name, member in list(self.crew.items()):
                if member.coming or (member.initialized and not member.unhealthy):
                    self.comes_up(name)
            if plan == SetPlan() and self.as_wanted():
                return
        raise AssertionError(f"not as wanted: {self.wanted} {self.crew}")

    def as_wanted(self) -> bool:
        crew = Crew(list(self.crew.values()))
        well = all(m.available and not m.sick for m in crew.staying)
        new = not self.wanted.replace_outdated or not any(m.outdated for m in crew.staying)
        settled = not (crew.leaving or crew.deleting or crew.preserved)
        return len(crew.staying) == self.wanted.replicas and well and new and settled


@pytest.mark.exhaustive
def test_no_limit_is_passed_and_it_ends_as_wanted() -> None:
    run_state_machine_as_test(
        Set, settings=settings(max_examples=50, stateful_step_count=25, deadline=None)
    )
