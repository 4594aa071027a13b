"""When so much is wrong at once that nothing may be deleted, replaced or disrupted."""

import asyncio
from datetime import timedelta

import pytest
from support.clock import FakeClock

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube.wire import HeadMeta
from machine.bootstrap.lifesigns import AgentLease, AgentLeaseSpec
from machine.meltdown import Meltdown


class Cache:
    """As much of an informer as is looked at."""

    name = "nodes"

    def __init__(self, clock: FakeClock) -> None:
        self._clock, self.proven = clock, clock.monotonic()
        self.synced = asyncio.Event()
        self.synced.set()

    def age(self) -> float:
        return self._clock.monotonic() - self.proven


class Fleet:
    """Machines whose agents renew their Leases as long as they are told to."""

    def __init__(self, size: int) -> None:
        self.clock = FakeClock()
        self.cache = Cache(self.clock)
        self.machines = {f"m{i}": a_machine(f"m{i}") for i in range(size)}
        self.repaired: set[str] = set()
        self.leases: dict[str, AgentLease] = {}
        self.alive = set(self.machines)
        self.deaf = False
        self.meltdown = Meltdown(
            self.clock,
            [self.cache],  # type: ignore[list-item]
            self.machines,
            lambda machine: machine.metadata.name in self.repaired,
        )
        self._beat = 0
        self.live(0)

    def live(self, seconds: int) -> None:
        """Let time pass in turns of 30 s: caches are proven, live agents renew."""
        for _ in range(max(1, seconds // 30)):
            self.clock.step(timedelta(seconds=30))
            if not self.deaf:
                self.cache.proven = self.clock.monotonic()
                self._renew()
            self.meltdown.check_causes()

    def _renew(self) -> None:
        self._beat += 1
        for name in sorted(self.alive):
            new = AgentLease(HeadMeta(name=name), AgentLeaseSpec(str(self._beat)))
            self.meltdown.lease_changed(f"kubenode-agents/{name}", self.leases.get(name), new)
            self.leases[name] = new

    def frozen(self) -> str:
        return self.meltdown.frozen()


def a_machine(name: str) -> Machine:
    meta = {"name": name, "uid": f"uid-{name}"}
    spec = {"addresses": ["10.0.0.7"]}
    return Machine.model_validate({"metadata": meta, "spec": spec})


def a_fleet(size: int = 10) -> Fleet:
    fleet = Fleet(size)
    fleet.live(60)
    assert fleet.frozen() == ""
    return fleet


def test_f15_an_api_server_that_is_silent_freezes_and_thaws_by_itself() -> None:
    fleet = a_fleet()
    fleet.deaf = True
    fleet.live(90)
    assert "has not proven the cache of nodes" in fleet.frozen()
    fleet.deaf = False
    fleet.live(270)
    assert "has not proven" in fleet.frozen()
    fleet.live(60)
    assert fleet.frozen() == ""


def test_a_silence_between_two_questions_is_not_missed() -> None:
    """Nobody asked while it lasted: it has looked by itself."""
    fleet = a_fleet()
    fleet.deaf = True
    fleet.live(90)
    fleet.deaf = False
    fleet.live(30)
    assert "has not proven" in fleet.frozen()


def test_invariant_13_leases_that_stop_together_freeze() -> None:
    fleet = a_fleet()
    fleet.alive -= {"m0", "m1", "m2"}
    fleet.live(90)
    assert fleet.frozen() == ""
    fleet.live(60)
    assert "over 20% of 10 agents stopped" in fleet.frozen()


@pytest.mark.parametrize(("size", "stop"), [(10, 2), (100, 20), (3, 2)])
def test_a_few_silent_agents_are_faults_of_their_own(size: int, stop: int) -> None:
    fleet = a_fleet(size)
    fleet.alive -= {f"m{i}" for i in range(stop)}
    fleet.live(300)
    assert fleet.frozen() == ""


def test_agents_that_stop_one_after_another_do_not_freeze() -> None:
    fleet = a_fleet()
    for name in ("m0", "m1", "m2", "m3"):
        fleet.alive -= {name}
        fleet.live(150)
        assert fleet.frozen() == ""


def test_what_stays_dead_thaws_too() -> None:
    """The share of the unhealthy, and Kube Defender, then have their say."""
    fleet = a_fleet()
    fleet.alive -= {f"m{i}" for i in range(5)}
    fleet.live(150)
    assert fleet.frozen()
    fleet.live(120 + 300)
    assert fleet.frozen() == ""


def test_leases_that_are_taken_away_stop_too() -> None:
    fleet = a_fleet()
    fleet.alive.clear()
    for name, lease in fleet.leases.items():
        fleet.meltdown.lease_changed(f"kubenode-agents/{name}", lease, None)
    fleet.live(150)
    assert "agents stopped" in fleet.frozen()


def test_machines_that_are_given_up_or_repaired_do_not_count() -> None:
    fleet = a_fleet()
    for name in ("m0", "m1"):
        fleet.machines[name].metadata.deletion_timestamp = fleet.clock.now()
    fleet.repaired.add("m2")
    fleet.alive -= {"m0", "m1", "m2"}
    fleet.live(300)
    assert fleet.frozen() == ""


def test_f15_a_restart_while_leases_stand_still_decides_nothing_on_them() -> None:
    fleet = Fleet(10)
    fleet.cache.synced.clear()
    assert "not filled" in fleet.frozen()
    for name in fleet.machines:
        old = AgentLease(HeadMeta(name=name), AgentLeaseSpec("long ago"))
        fleet.meltdown.lease_changed(f"kubenode-agents/{name}", None, old)
    fleet.cache.synced.set()
    fleet.alive.clear()
    fleet.live(60)
    assert "too few of 10 agents have renewed" in fleet.frozen()
    fleet.live(90)
    assert "agents stopped" in fleet.frozen()


def test_a_provider_that_lists_nothing_freezes_until_it_does() -> None:
    fleet = a_fleet()
    fleet.meltdown.listed("ecs-a", 0, 4)
    assert fleet.frozen() == "ecs-a lists no instance, but 4 Machines have one"
    fleet.live(600)
    assert fleet.frozen()
    fleet.meltdown.listed("ecs-a", 4, 4)
    fleet.live(330)
    assert fleet.frozen() == ""


def test_invariant_13_after_a_thaw_one_is_replaced_before_others() -> None:
    fleet = a_fleet()
    fleet.meltdown.listed("ecs-a", 0, 4)
    assert fleet.meltdown.claim_replacement("uid-m0")
    fleet.meltdown.listed("ecs-a", 4, 4)
    fleet.live(330)
    assert fleet.meltdown.claim_replacement("uid-m1") == ""
    assert "one machine is replaced before others" in fleet.meltdown.claim_replacement("uid-m2")
    assert fleet.meltdown.claim_replacement("uid-m1") == ""
    assert fleet.meltdown.requeue_after <= 300
    fleet.live(300)
    assert fleet.meltdown.claim_replacement("uid-m2") == ""


def test_without_a_freeze_nothing_is_held_back() -> None:
    fleet = a_fleet()
    assert {fleet.meltdown.claim_replacement(f"uid-m{i}") for i in range(5)} == {""}


def test_a_restore_freezes_until_it_is_lifted() -> None:
    clock, restored = FakeClock(), ["the cluster's data were restored from a backup"]
    meltdown = Meltdown(clock, [], {}, restored=lambda: restored[0])
    clock.step(timedelta(days=30))
    assert meltdown.frozen() == meltdown.claim_replacement("uid") == restored[0]
    restored[0] = ""
    assert meltdown.frozen() == meltdown.claim_replacement("uid") == ""
