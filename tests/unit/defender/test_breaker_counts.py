"""What breakers count with each change is what a count from the beginning finds."""

from datetime import timedelta
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.breaker_core import Fleet, a_job
from support.defender_core import ZONE, a_policy, an_ask

from defender.decision.breaker.group import BreakerGroup
from defender.decision.breaker.watch import BreakerWatch
from kubenode.api.v1alpha1 import Reason, default_policy

MANY = [{"scope": "Cluster", "maxConcurrent": 1000}]
SCOPES = [
    {"scope": "Cluster"},
    {"scope": "Label", "label": ZONE},
    {"scope": "Label", "label": "rack"},
]
NODES = [f"n{number}" for number in range(24)]
node = st.sampled_from(NODES)
op = st.one_of(
    st.tuples(st.just("put"), node, st.sampled_from(["True", "False", "Unknown"])),
    st.tuples(st.just("move"), node, st.sampled_from(["a", "b", ""])),
    st.tuples(st.just("kernel"), node, st.sampled_from(["6.1", "6.9"])),
    st.tuples(st.just("gone"), node, st.just("")),
    st.tuples(st.just("job"), node, st.sampled_from(["Pending", "Verifying", "Succeeded"])),
    st.tuples(st.just("no job"), node, st.just("")),
    st.tuples(st.just("zone"), st.sampled_from("ab"), st.sampled_from(["True", "False"])),
    st.tuples(st.just("wait"), st.sampled_from(["0", "1", "6", "30"]), st.just("")),
)


def labels(number: int, zone: str) -> dict[str, str]:
    return ({ZONE: zone} if zone else {}) | {"rack": f"r{number // 4}"}


def do(fleet: Fleet, what: tuple[str, str, str]) -> None:
    kind, name, value = what
    known = fleet.objects.get(name)
    match kind:
        case "put" if known:
            fleet.put(name, value)
        case "move" if known:
            status = known.status.conditions[0].status
            fleet.put(name, status, labels=labels(int(name[1:]), value))
        case "kernel" if known:
            fleet.put(name, known.status.conditions[0].status, kernel=value)
        case "gone" if known:
            del fleet.objects[name]
            fleet.control.node_changed(name, None, fleet.now)
        case "job":
            rung = 1 if value == "Verifying" else 0
            fleet.job(a_job(name, value, created=fleet.now, rung=rung, fault_class=value))
        case "no job" if f"job-{name}" in fleet.jobs:
            fleet.no_job(f"job-{name}")
        case "zone":
            for each, obj in list(fleet.objects.items()):
                if obj.metadata.labels.get(ZONE) == name:
                    fleet.put(each, value)
        case "wait":
            fleet.step(minutes=int(name))
        case _:
            pass  # there is no such node or job now


def sums(group: BreakerGroup, fleet: Fleet) -> Any:
    return (
        group.everyone,
        group.members,
        group.unhealthy,
        group.unexplained,
        dict(group.classes),
        {key: dict(jobs) for key, jobs in group.climbs.items()},
        group.failed_since(fleet.now - timedelta(minutes=10)),
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(op, max_size=30))
def test_every_change_leaves_the_sums_of_a_count_from_the_beginning(ops: list[Any]) -> None:
    fleet = Fleet(a_policy(limits=MANY, breaker={"scopes": SCOPES}))
    for number, name in enumerate(NODES):
        fleet.put(name, labels=labels(number, "ab"[number // 12]), kernel="6.1")
    watch = next(w for w in fleet.control.breakers.watches() if w.policy.name == "default")
    for what in ops:
        do(fleet, what)
        fleet.control.advance(fleet.now)
        anew = BreakerWatch(watch.policy, watch.spec)
        anew.states = dict(watch.states)
        for name, view in fleet.control.breakers._views.items():
            anew.put(name, view)
        for ours, theirs in ((watch._groups, anew._groups), (watch._having, anew._having)):
            for key in {*ours, *theirs}:
                one, two = ours.get(key) or BreakerGroup(), theirs.get(key) or BreakerGroup()
                assert sums(one, fleet) == sums(two, fleet), (what, key)
        assert sums(watch.whole, fleet) == sums(anew.whole, fleet)


@pytest.mark.exhaustive
def test_a_thousand_of_two_thousand_nodes_fail_at_once() -> None:
    """The issue asks for an open breaker within 2 s; the rest of the cluster is asked on."""
    fleet = Fleet(a_policy(**default_policy().to_dict()["spec"]))
    for number in range(2000):
        fleet.put(f"n{number}", labels={ZONE: "ab"[number % 2]}, kernel="6.1")
    began = perf_counter()
    for number in range(0, 2000, 2):
        fleet.put(f"n{number}", "False")
    assert fleet.judge(an_ask("n0")).reason is Reason.BREAKER_OPEN
    assert perf_counter() - began < 2
    assert fleet.judge(an_ask("n1")).allowed
