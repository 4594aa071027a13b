"""Invariant 15: any number of machines, batches, partition, window and churn."""

import os
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.rollout_model import Host, World, quick

from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from machine.componentset.budget import count_staying, part_of
from machine.componentset.member import IN_FLIGHT, MemberState, RolloutMember
from machine.componentset.phases import EDGES
from machine.componentset.rollout import RolloutState

MANY = settings(
    max_examples=int(os.environ.get("KUBENODE_TEST_ROLLOUTS", "12")),
    derandomize="KUBENODE_TEST_ROLLOUTS" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
"""The same ones each time; set the variable to look further."""
SHARES = st.one_of(st.integers(1, 12), st.sampled_from(["5%", "10%", "25%", "50%", "100%"]))


@st.composite
def strategies(draw: st.DrawFn) -> UpdateStrategy:
    return quick(
        batches=draw(st.lists(SHARES, min_size=1, max_size=4)),
        partition=draw(st.one_of(st.just(0), st.just(0), SHARES)),
        max_unavailable=draw(SHARES),
        spread=draw(st.sampled_from([[], [{"topologyKey": "zone", "maxUnavailable": 1}]])),
        bake_time=draw(st.sampled_from(["0s", "1m", "7m"])),
        pre_stage=draw(st.booleans()),
        failure_policy=draw(st.sampled_from(["Pause", "Rollback", "Continue"])),
        max_attempts=draw(st.integers(1, 2)),
        progress_deadline="3h",
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(0, 24))
    strategy = draw(strategies())
    first = draw(st.booleans())
    hosts = []
    for i in range(count):
        zone = draw(st.sampled_from("abc"))
        rest = {"zone": zone, "domains": (zone,) if strategy.spread else ()}
        name = f"m{i:02d}"
        host = Host(name, **rest) if first else Host.at(name, "A", **rest)  # type: ignore[arg-type]
        host.canary = draw(st.booleans())
        host.needs = draw(st.booleans())
        hosts.append(host)
    rollout = RolloutState() if first else RolloutState(current="A", update="A")
    world = World.of(*hosts, strategy=strategy, rollout=rollout)
    minutes = draw(st.sampled_from([30, 30, 7]))
    world.window = lambda now: now.minute % 30 < minutes
    return world


def _in_service(member: RolloutMember) -> bool:
    """What was only downloaded ahead is given up without any disruption."""
    return not member.down and member.standing is not MemberState.AHEAD


class Watch:
    """What must hold at every moment."""

    def __init__(self, world: World) -> None:
        self.world, self.moved = world, dict.fromkeys(world.hosts, 0)

    def turn(self) -> None:
        world = self.world
        before = {m.name: m for m in world.members()}
        held = {n for n, h in world.hosts.items() if h.held}
        acted = {n: len(h.acted) for n, h in world.hosts.items()}
        window, stopped = world.window(world.now), world.rollout.stop
        phase = world.rollout.phase
        world.turn()
        after = world.rollout.phase
        assert phase is None or after is phase or after in EDGES[phase], (phase, after)
        base = [m for m in before.values() if not m.newcomer]
        limit = part_of(world.strategy.max_unavailable, len(base))
        was_down = sum(m.down for m in base)
        moves = [m for m in world.plan.moves if not m.ahead]
        up = [m for m in moves if before[m.machine] in base and _in_service(before[m.machine])]
        assert len(up) + was_down <= max(limit, was_down), "more than maxUnavailable"
        assert not held & {m.machine for m in moves}, "a held machine was moved"
        if not window:
            assert not moves, "outside the window"
        if not window or world.frozen or world.meltdown:
            for name, count in acted.items():
                host = world.hosts.get(name)
                assert host is None or len(host.acted) == count or not host.needs
        if stopped is not None and not world.paused:
            assert all(m.revision != "B" or m.machine not in before for m in moves) or not [
                m for m in moves if m.revision == "B" and before[m.machine].revision != "B"
            ]
        self._partition()

    def _partition(self) -> None:
        world = self.world
        total = len(world.hosts)
        if world.rollout.current != "A" or not total:
            return
        new = len(world.assigned("B"))
        room = total - count_staying(world.strategy.partition, total)
        returning = world.rollout.phase in ("RollingBack", "Paused", "Idle")
        assert new <= room or returning, (new, room)


@MANY
@given(worlds())
def test_invariant_15_a_sound_rollout_ends_with_every_machine_moved_once(world: World) -> None:
    watch = Watch(world)
    for _ in range(3000):
        watch.turn()
        if world.rollout.phase == "Completed" or not world.hosts:
            break
        if world.plan.progressing[1].reason == "PartitionReached":
            break
    total = len(world.hosts)
    kept = count_staying(world.strategy.partition, total)
    if not total:
        assert world.rollout.phase == "Idle"
        return
    assert len(world.on("B")) == total - kept, (world.rollout, world.plan)
    for host in world.hosts.values():
        assert host.history.count("B") <= 1
        assert len(host.acted) <= 1


@st.composite
def troubles(draw: st.DrawFn) -> list[tuple[int, str, int]]:
    kinds = ["dies", "wakes", "held", "freed", "leaves", "joins", "pause", "go", "C", "A", "B"]
    return draw(
        st.lists(
            st.tuples(st.integers(0, 120), st.sampled_from(kinds), st.integers(0, 30)), max_size=12
        )
    )


@MANY
@given(worlds(), troubles(), st.sets(st.integers(0, 24), max_size=3))
@pytest.mark.exhaustive
def test_invariant_15_whatever_comes_between_ends_well_once_it_is_over(
    world: World, trouble: list[tuple[int, str, int]], bad: set[int]
) -> None:
    world.window = lambda now: True
    names = sorted(world.hosts)
    for index in bad:
        if index < len(names):
            world.hosts[names[index]].bad = {"B"}
    watch = Watch(world)
    for turn in range(140):
        for at, kind, index in trouble:
            if at == turn:
                _happens(world, kind, index)
        watch.turn()
    # Now all is well again, and a person looks after it with another revision.
    for host in world.hosts.values():
        host.answers, host.held, host.bad = True, "", set()
    world.paused, world.strategy = False, world.strategy.model_copy(update={"partition": 0})
    world.target = "D"
    for _ in range(3000):
        watch.turn()
        if not world.hosts or (world.rollout.current == "D" and not world.plan.moves):
            break
    assert world.on("D") == sorted(world.hosts), (world.rollout, world.plan)
    settled = {h.standing for h in world.hosts.values()}
    assert not settled & set(IN_FLIGHT) and MemberState.FAILED not in settled
    world.now += timedelta(days=1)
    before = world.rollout
    for _ in range(3):
        world.turn()
    assert world.rollout == before and world.plan.moves == ()


def _happens(world: World, kind: str, index: int) -> None:
    names = sorted(world.hosts)
    host = world.hosts[names[index % len(names)]] if names else None
    match kind:
        case "joins":
            zone = "abc"[index % 3]
            domains = (zone,) if world.strategy.spread else ()
            new = Host(f"n{index:02d}", zone=zone, domains=domains, newcomer=index % 2 == 0)
            world.hosts.setdefault(new.name, new)
        case "pause" | "go":
            world.paused = kind == "pause"
        case "A" | "B" | "C":
            world.target = kind
        case _ if host is None:
            pass
        case "dies" | "wakes":
            host.answers = kind == "wakes"
        case "held" | "freed":
            host.held = "rj-1" if kind == "held" else ""
        case "leaves":
            del world.hosts[host.name]
        case _:
            raise ValueError(kind)
