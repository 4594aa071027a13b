"""A release against any history: clusters fail, fall silent and recover, people change their minds,
and Captain dies at any write.

Whatever happens no order and no limit is passed; once failures end, so does the release.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from support.clock import FakeClock
from support.release_world import (
    DeathError,
    Lifetime,
    MemberDouble,
    Raw,
    ReleaseWorldDouble,
    make_component,
    make_pipeline,
    make_release,
    make_set,
    make_stage,
)

from kubenode.api.share import share_of
from kubenode.api.v1alpha1.release import (
    ApprovalSubject,
    ClusterPhase,
    ReleaseCluster,
    ReleasePhase,
    ReleaseStage,
    ReleaseState,
    StageApprovalEntry,
    StagePhase,
)

STAGES = ("test", "staging", "production")
ROUNDS = 240
"""Most reconciles until a release ends without failures."""
SHARES: Sequence[int | str] = (1, 2, "50%", "100%")


class ReleaseMachine(RuleBasedStateMachine):
    """The world, and what may be true of it.

    stage_settings: settings of all stages beside those of `begin`.
    """

    stage_settings: Mapping[str, Any] = {}
    payload: Sequence[Raw] = (make_component(), make_set())

    def make_member(self, name: str, clock: FakeClock) -> MemberDouble:
        return MemberDouble(name, name.partition("-")[0])

    def make_installed(self, bit: int) -> Raw:
        """Return an object that stands in a cluster before the release."""
        return make_set(f"containerd-1.{bit}")

    @initialize(
        sizes=st.tuples(*[st.integers(1, 3)] * len(STAGES)),
        concurrency=st.sampled_from(SHARES),
        failures=st.sampled_from(SHARES),
        approval=st.sampled_from(["None", "Before"]),
        unreachable=st.sampled_from(["Wait", "Skip", "Fail"]),
        bake=st.sampled_from(["0s", "1m"]),
        policy=st.sampled_from(["Pause", "Rollback"]),
        installed=st.integers(0, 511),
    )
    def begin(
        self,
        sizes: tuple[int, ...],
        concurrency: int | str,
        failures: int | str,
        approval: str,
        unreachable: str,
        bake: str,
        policy: str,
        installed: int,
    ) -> None:
        names = [f"{s}-{n}" for s, size in zip(STAGES, sizes, strict=True) for n in range(size)]
        clock = FakeClock()
        members = [self.make_member(name, clock) for name in names]
        for bit, member in enumerate(members):
            if installed >> bit & 1:
                member.put(self.make_installed(bit))
        limits = {"maxConcurrency": concurrency, "maxFailures": failures}
        policies = {"approval": approval, "onUnreachable": unreachable, "bakeTime": bake}
        policies |= self.stage_settings
        stages = [make_stage(stage, **limits, **policies) for stage in STAGES]
        self.concurrency, self.failures, self.approval = concurrency, failures, approval
        self.unreachable, self.bake = unreachable, timedelta(minutes=1 if bake == "1m" else 0)
        self.settled_since: dict[str, datetime] = {}
        self.world = ReleaseWorldDouble(make_pipeline(*stages, policy=policy), members, clock)
        self.original = self.world.specs
        self.world.store.put(make_release(*self.payload))

    # -- Captain ----------------------------------------------------------------------------------

    @rule(
        rounds=st.integers(2, 12), ends_at=st.sampled_from([0, 0, 1, 2, 3, 5]), before=st.booleans()
    )
    def lives(self, rounds: int, ends_at: int, before: bool) -> None:
        self.world.restart(Lifetime(ends_at, before))
        for _ in range(rounds):
            self.reconcile()
            if self.died:
                return

    def reconcile(self) -> None:
        release = self.world.store.get()
        wrote = {name: len(member.written) for name, member in self.world.members.items()}
        self.died = False
        try:
            self.world.reconcile()
        except DeathError:
            self.died = True
        written = {n for n, m in self.world.members.items() if len(m.written) > wrote[n]}
        self.check_writes(written, release.spec.state)
        self.check_proofs(release.status.stages)
        self.world.clock.step(timedelta(seconds=5))

    def check_writes(self, written: set[str], state: ReleaseState) -> None:
        status = self.world.store.get().status
        if state in (ReleaseState.PAUSE, ReleaseState.ABORT):
            assert not written
        for index, stage in enumerate(status.stages):
            here = written & {cluster.name for cluster in stage.clusters}
            limit = self.limit(self.concurrency, stage)
            assert len(here) <= limit
            if here and status.rollback is None:
                assert all(each.phase is StagePhase.SUCCEEDED for each in status.stages[:index])

    def check_proofs(self, before: Sequence[ReleaseStage]) -> None:
        """A stage that has just succeeded was settled for its bake time, and is healthy now."""
        proven = {each.name for each in before if each.phase is StagePhase.SUCCEEDED}
        for stage in self.world.store.get().status.stages:
            if stage.phase is StagePhase.SUCCEEDED and stage.name not in proven:
                since = self.settled_since.get(stage.name, self.world.clock.now())
                assert self.world.clock.now() - since >= self.bake
                assert all(self.is_proven(cluster) for cluster in stage.clusters)
            if not all(cluster.phase.settled for cluster in stage.clusters):
                self.settled_since.pop(stage.name, None)
            else:
                self.settled_since.setdefault(stage.name, self.world.clock.now())

    def is_proven(self, cluster: ReleaseCluster) -> bool:
        if cluster.phase is not ClusterPhase.SUCCEEDED:
            return True
        member = self.world.members[cluster.name]
        return member.healthy if member.reachable else self.unreachable == "Skip"

    def limit(self, share: int | str, stage: ReleaseStage) -> int:
        return max(1, share_of(share, len(stage.clusters)))

    # -- people and clusters ----------------------------------------------------------------------

    @rule()
    def person_resumes(self) -> None:
        for state in (ReleaseState.PAUSE, ReleaseState.RUN):
            self.world.store.set_spec(state=state)
            self.reconcile()

    @rule(state=st.sampled_from([ReleaseState.RUN, ReleaseState.RUN, *ReleaseState]))
    def person_sets_state(self, state: ReleaseState) -> None:
        self.world.store.set_spec(state=state)

    @rule(stage=st.sampled_from(STAGES))
    def person_approves(self, stage: str) -> None:
        given = self.world.store.get().spec.approvals
        if stage not in self.list_approved():
            entry = StageApprovalEntry(stage=stage, by="ann")
            self.world.store.set_spec(approvals=[*given, entry])

    @rule(bit=st.integers(0, 8), lever=st.sampled_from(["reachable", "healthy"]))
    def cluster_changes(self, bit: int, lever: str) -> None:
        members = list(self.world.members.values())
        member = members[bit % len(members)]
        setattr(member, lever, not getattr(member, lever))

    @rule(minutes=st.integers(1, 5))
    def time_passes(self, minutes: int) -> None:
        self.world.clock.step(timedelta(minutes=minutes))

    def list_approved(self) -> set[str]:
        """Return the stages that may start."""
        approvals = self.world.store.get().spec.approvals
        return {each.stage for each in approvals if each.subject is ApprovalSubject.START}

    # -- what may be true -------------------------------------------------------------------------

    @invariant()
    def later_stages_wait(self) -> None:
        stages = self.world.store.get().status.stages
        for stage, following in pairwise(stages):
            if stage.phase is not StagePhase.SUCCEEDED:
                assert all(not cluster.previous for cluster in following.clusters)

    @invariant()
    def limits_hold(self) -> None:
        for stage in self.world.store.get().status.stages:
            phases = [cluster.phase for cluster in stage.clusters]
            flying = sum(p in (ClusterPhase.APPLYING, ClusterPhase.VERIFYING) for p in phases)
            assert flying <= self.limit(self.concurrency, stage)
            failed = phases.count(ClusterPhase.FAILED)
            if stage.phase is StagePhase.SUCCEEDED:
                assert failed < self.limit(self.failures, stage)

    @invariant()
    def only_written_clusters_differ(self) -> None:
        status = self.world.store.get().status
        recorded = {c.name for stage in status.stages for c in stage.clusters if c.previous}
        for name, specs in self.world.specs.items():
            assert name in recorded or specs == self.original[name]

    @invariant()
    def unapproved_stages_are_untouched(self) -> None:
        release = self.world.store.get()
        approved = self.list_approved()
        for stage in release.status.stages if self.approval == "Before" else ():
            assert stage.name in approved or all(not c.previous for c in stage.clusters)

    @invariant()
    def rolled_back_is_as_before(self) -> None:
        if self.world.store.get().status.phase is ReleasePhase.ROLLED_BACK:
            assert self.world.specs == self.original

    def teardown(self) -> None:
        """Failures end, and people want the release to go on: it ends."""
        if not hasattr(self, "world"):
            return
        self.world.restart()
        for member in self.world.members.values():
            member.reachable = member.healthy = True
        for stage in STAGES:
            self.person_approves(stage)
        for state in (ReleaseState.PAUSE, ReleaseState.RUN):
            self.world.store.set_spec(state=state)
            status = self.world.run(rounds=ROUNDS, step=5)
        assert status.phase is not None and status.phase.ended, status.message
        self.world.store.set_spec(state=ReleaseState.ROLLBACK)
        assert self.world.run(rounds=ROUNDS).phase is ReleasePhase.ROLLED_BACK
        assert self.world.specs == self.original
