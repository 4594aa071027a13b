"""Simulated hosts: what cures what, and nothing else does."""

import pytest
from support.clock import T0

from simulation.demo.fleet import node_object, places
from simulation.demo.hosts import CHRONY, CONTAINERD, KUBELET, DemoHost, HostAct, Illness, Mark


@pytest.fixture
def host() -> DemoHost:
    return DemoHost(places(6)[4])


def test_restart_cures_the_unit_it_names_and_no_other(host: DemoHost) -> None:
    host.break_unit(KUBELET, Illness(1.0))
    assert host.restart(CHRONY, 2.0)
    assert not host.well
    assert host.restart(KUBELET, 3.0)
    assert host.well


def test_wedged_kubelet_needs_its_runtime_restarted_first(host: DemoHost) -> None:
    host.break_unit(KUBELET, Illness(1.0, also=CONTAINERD))
    assert not host.restart(KUBELET, 2.0)
    host.restart(CONTAINERD, 3.0)
    assert host.restart(KUBELET, 4.0)


def test_hanging_shims_go_only_with_the_pods(host: DemoHost) -> None:
    host.workload_pods = 2
    host.break_unit(CONTAINERD, Illness(1.0, empty=True))
    assert not host.restart(CONTAINERD, 2.0)
    host.workload_pods = 0
    assert host.restart(CONTAINERD, 3.0)


def test_no_restart_cures_what_comes_from_outside(host: DemoHost) -> None:
    host.break_unit(CONTAINERD, Illness(1.0, outside=True))
    assert not host.restart(CONTAINERD, 2.0)
    host.recover_unit(CONTAINERD)
    assert host.well


def test_marks_of_the_kernel_log_stay_until_a_boot_which_changes_the_boot_id(
    host: DemoHost,
) -> None:
    host.mark(Mark.KERNEL_DEADLOCK, 1.0)
    before = host.boot_id
    host.restart(KUBELET, 2.0)
    assert not host.well
    host.boot()
    assert host.well
    assert host.boot_id != before


def test_every_restart_is_told_with_the_unit(host: DemoHost) -> None:
    told: list[HostAct] = []
    host.acted = told.append
    host.restart(KUBELET, 2.0)
    assert [(act.node, act.verb, act.unit) for act in told] == [(host.name, "RestartUnit", KUBELET)]


def test_nodes_are_as_large_as_small_real_ones() -> None:
    import msgspec

    sizes = [len(msgspec.json.encode(node_object(p, T0))) for p in places(12)]
    assert min(sizes) > 3000
    assert max(sizes) < 5000
