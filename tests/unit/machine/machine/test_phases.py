"""The phases of a Machine over all facts and all phases before: along edges only, with proof."""

from collections.abc import Callable, Iterator
from itertools import product

from machine.machine.phases import (
    EDGES,
    ComponentProgress,
    MachineFacts,
    NodeState,
    Phase,
    next_phase,
    phase_of,
)


def every_fact() -> Iterator[MachineFacts]:
    yes_no = (False, True)
    for provision, deleting, failed, token, instance in product(yes_no, repeat=5):
        for joined, initialized, lease, settled in product(yes_no, repeat=4):
            for node, components in product(NodeState, ComponentProgress):
                yield MachineFacts(
                    provision=provision,
                    deleting=deleting,
                    failed=failed,
                    token=token,
                    instance=instance,
                    joined=joined,
                    initialized=initialized,
                    lease=lease,
                    node=node,
                    components=components,
                    settled=settled,
                )


PROOF: dict[Phase, Callable[[MachineFacts], bool]] = {
    Phase.PENDING: lambda f: f.provision and not f.token and not f.instance,
    Phase.PROVISIONING: lambda f: f.provision and not f.instance,
    Phase.PROVISIONED: lambda f: f.provision and f.instance,
    Phase.IMPORTING: lambda f: not f.provision,
    Phase.INITIALIZING: lambda f: f.joined or f.initialized,
    Phase.RUNNING: lambda f: f.initialized,
    Phase.UPDATING: lambda f: f.initialized and f.components is ComponentProgress.CHANGING,
    Phase.DEGRADED: lambda f: f.initialized,
    Phase.UNREACHABLE: lambda f: f.initialized and not f.lease and f.node is not NodeState.READY,
    Phase.FAILED: lambda f: f.failed,
    Phase.DELETING: lambda f: f.deleting,
}
"""What must be so on entry, told without the code under test; on the way to another phase too."""


def test_a_phase_is_entered_along_an_edge_and_with_its_proof() -> None:
    taken = set()
    for facts in every_fact():
        for before in Phase:
            there, after = phase_of(facts), next_phase(before, facts)
            if after is before:
                continue
            if after in EDGES[before]:
                taken.add((before, after))
            else:
                assert after is there, "no way leads there: the facts alone count"
            if after is there:
                assert PROOF[after](facts)
    assert taken == {(a, b) for a in EDGES for b in EDGES[a]}


def test_a_phase_that_was_lost_is_found_again_from_the_facts_alone() -> None:
    for facts in every_fact():
        assert next_phase(None, facts) is phase_of(facts)


def test_whatever_was_before_the_facts_phase_is_reached_in_a_few_looks() -> None:
    one_of_each = {phase_of(facts): facts for facts in every_fact()}
    assert set(one_of_each) == set(Phase)
    for facts in one_of_each.values():
        for before in Phase:
            phase = before
            for _ in range(len(Phase)):
                phase = next_phase(phase, facts)
            assert phase is phase_of(facts)


def test_of_a_machine_that_was_whole_the_table_holds() -> None:
    for f in every_fact():
        if not f.initialized or f.deleting or f.failed:
            continue
        bad = f.components is ComponentProgress.BAD
        not_ready = f.node is NodeState.NOT_READY
        match phase_of(f):
            case Phase.RUNNING | Phase.UPDATING:
                assert f.lease and not bad and not not_ready and f.settled
            case Phase.UNREACHABLE:
                assert not f.lease and f.node is not NodeState.READY
            case Phase.DEGRADED:
                assert bad or not_ready or not f.lease or not f.settled
                assert f.lease or f.node is NodeState.READY
            case other:
                raise AssertionError(other)


def test_a_stale_lease_of_a_node_that_is_ready_is_never_unreachable() -> None:
    """So that nobody replaces a machine whose agent alone is ill."""
    ready = [f for f in every_fact() if f.node is NodeState.READY and not f.lease]
    assert Phase.UNREACHABLE not in {phase_of(f) for f in ready}


def test_deleting_lets_nothing_back_and_failed_only_imports() -> None:
    assert EDGES[Phase.FAILED] == {Phase.IMPORTING, Phase.DELETING}
    assert EDGES[Phase.DELETING] == set()
    assert all(Phase.DELETING in EDGES[phase] for phase in Phase if phase is not Phase.DELETING)
