"""Which boot a host runs, over all that its kubelet and its agent may have written.

The histories at the end are those of a host and of two writers of which either may be dead: what
is decided must never take a job back to an older boot, as a job takes any other boot for a new one.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.remedy_hand import HandFed

from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeInfo, NodeStatus
from kubenode.runtime.kube.plain import PlainTransport
from remedy.remedier.boots import LONGEST, Boots, boot_of
from remedy.remedier.leases import Renewal, decode_renewal

SECOND, MINUTE, YEAR = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=365)
NOWHERE = Kube(PlainTransport("http://nowhere"))


def a_node(boot_id: str, heard: datetime | None = T0, made: datetime | None = T0 - YEAR) -> Node:
    stamp = None if heard is None else host_time(heard)
    ready = NodeCondition("Ready", "True", last_heartbeat_time=stamp)
    status = NodeStatus([ready], NodeInfo(boot_id=boot_id))
    return Node(KubeObjectMeta(name="n1", uid="uid-n1", creation_timestamp=made), status=status)


def renewal(**parts: Any) -> dict[str, Any]:
    """`boot_id` and `renewed` of an agent's Lease; what is None is not in it."""
    word, renewed = parts.get("boot_id"), parts.get("renewed", T0)
    at = renewed.isoformat() if isinstance(renewed, datetime) else renewed
    annotations = {} if word is None else {"annotations": {"kubenode.io/boot-id": word}}
    spec = {} if at is None else {"renewTime": at}
    return {"metadata": {"name": "n1", "namespace": "kubenode-agents", **annotations}, "spec": spec}


def a_lease(boot_id: str | None, renewed: datetime | str | None = T0) -> Renewal:
    return decode_renewal(json.dumps(renewal(boot_id=boot_id, renewed=renewed)).encode())


# -- the rule --------------------------------------------------------------------------------------

STAMPS = (None, T0, T0 + SECOND, T0 + MINUTE)
WORDS = (None, "", "old", "new", "n" * LONGEST, "n" * (LONGEST + 1))


@pytest.mark.parametrize("by_kubelet", ["", "old", "new"])
def test_the_later_word_of_the_two_counts_and_the_kubelets_when_in_doubt(by_kubelet: str) -> None:
    for word, heard, made, renewed in product(WORDS, STAMPS, STAMPS, (*STAMPS, "yesterday", "")):
        node, lease = a_node(by_kubelet, heard, made), a_lease(word, renewed)
        told = max((at for at in (heard, made) if at is not None), default=None)
        wellformed = word is not None and 0 < len(word) <= LONGEST
        stamped = isinstance(renewed, datetime)
        later = isinstance(renewed, datetime) and (told is None or renewed > told)
        wanted = word if wellformed and stamped and later else by_kubelet
        assert boot_of(node, lease) == wanted, (word, heard, made, renewed)
        assert boot_of(node, None) == by_kubelet


def test_after_a_boot_whose_kubelet_stays_away_the_agent_tells() -> None:
    assert boot_of(a_node("old", T0), a_lease("new", T0 + MINUTE)) == "new"


def test_after_a_boot_whose_agent_stays_away_the_kubelet_tells() -> None:
    assert boot_of(a_node("new", T0 + MINUTE), a_lease("old", T0)) == "new"


def test_what_the_node_controller_writes_of_a_silent_kubelet_makes_its_word_no_newer() -> None:
    node = a_node("old", T0)
    unknown = NodeCondition(
        "Ready",
        "Unknown",
        "NodeStatusUnknown",
        last_heartbeat_time=host_time(T0),
        last_transition_time=host_time(T0 + 2 * MINUTE),
    )
    node.status.conditions = [unknown]
    assert boot_of(node, a_lease("new", T0 + MINUTE)) == "new"


def test_the_agent_of_a_former_machine_says_nothing_of_the_one_that_has_its_name() -> None:
    """Even if the clock of the new one is behind, or its kubelet has told nothing yet."""
    behind = a_node("new", heard=T0 - MINUTE, made=T0 + MINUTE)
    assert boot_of(behind, a_lease("of the former", T0)) == "new"
    silent = a_node("", heard=None, made=T0 + MINUTE)
    assert boot_of(silent, a_lease("of the former", T0)) == ""


def test_a_node_writes_whole_seconds_and_a_tie_is_the_kubelets() -> None:
    part = timedelta(milliseconds=900)
    assert boot_of(a_node("new", T0), a_lease("old", T0 + part)) == "new"
    assert boot_of(a_node("old", T0), a_lease("new", T0 + SECOND)) == "new"


def test_times_without_a_zone_cannot_be_compared() -> None:
    assert boot_of(a_node("old"), a_lease("new", "2099-01-01T00:00:00")) == "old"


# -- histories -------------------------------------------------------------------------------------


@dataclass
class Host:
    """Two writers and the objects that they leave behind. `clock` is the host's own."""

    boot: int = 1
    clock: datetime = T0
    node: Node = field(default_factory=lambda: a_node("boot-1"))
    lease: Renewal | None = None
    told: int = 1
    """The newest boot that anybody has told."""

    def happens(self, what: str) -> None:
        self.clock += 10 * SECOND
        match what:
            case "boots":
                self.boot += 1
            case "boots, and its clock is set back":
                self.boot, self.clock = self.boot + 1, self.clock - 25 * SECOND
            case "its kubelet writes":
                self.node, self.told = a_node(f"boot-{self.boot}", self.clock), self.boot
            case _:
                self.lease, self.told = a_lease(f"boot-{self.boot}", self.clock), self.boot

    def known(self) -> int:
        return int(boot_of(self.node, self.lease).removeprefix("boot-"))


WRITES = ("its kubelet writes", "its agent writes")


@pytest.mark.parametrize("first", WRITES)
def test_whoever_is_dead_the_newest_boot_that_anybody_told_is_known(first: str) -> None:
    for rest in product(("boots", *WRITES), repeat=7):
        host = Host()
        for what in (first, *rest):
            host.happens(what)
            assert host.known() == host.told, rest


@pytest.mark.parametrize("first", WRITES)
@pytest.mark.exhaustive
def test_another_boot_than_before_is_never_told_of_a_host_that_has_not_booted(first: str) -> None:
    """Also when clocks are set back, what costs the proof until they are right again."""
    for rest in product(("boots", "boots, and its clock is set back", *WRITES), repeat=6):
        host, known = Host(), set[int]()
        for what in (first, *rest):
            host.happens(what)
            known.add(host.known())
            assert host.known() == host.boot or host.boot not in known, rest


# -- what follows the Leases -----------------------------------------------------------------------


class Following:
    def __init__(self) -> None:
        self.clock, self.woken = FakeClock(), list[str]()
        self.leases: HandFed[Renewal] = HandFed(
            NOWHERE, "/leases", decode_renewal, clock=self.clock
        )
        self.boots = Boots(self.leases, self.clock, self.woken.append)
        self.leases.add_handler(self.boots.changed)
        self.leases.current()

    def tells(self, boot_id: str) -> None:
        self.leases.put(renewal(boot_id=boot_id, renewed=self.clock.now()))


def test_before_the_leases_were_read_no_boot_is_known() -> None:
    """The kubelet's word alone could be the one of the boot before."""
    fleet = Following()
    fleet.leases.synced.clear()
    assert not fleet.boots.known() and fleet.boots.of(a_node("old"), "n1") == ""
    fleet.leases.synced.set()
    assert fleet.boots.known() and fleet.boots.of(a_node("old"), "n1") == "old"


def test_a_cache_that_is_no_longer_current_keeps_the_last_word() -> None:
    fleet = Following()
    fleet.clock.step(MINUTE)
    fleet.tells("new")
    fleet.leases.current(False)
    assert fleet.boots.of(a_node("old", T0), "n1") == "new"
    assert fleet.boots.of(a_node("old", T0), "another") == "old"


def test_only_another_boot_wakes_and_its_first_word_is_remembered() -> None:
    fleet = Following()
    fleet.tells("old")
    fleet.woken.clear()
    for _ in range(5):
        fleet.clock.step(10 * SECOND)
        fleet.tells("old")
    assert fleet.woken == [] and fleet.boots.since("n1") == T0
    fleet.clock.step(10 * SECOND)
    fleet.tells("new")
    fleet.clock.step(10 * SECOND)
    fleet.tells("new")
    assert fleet.woken == ["n1"] and fleet.boots.since("n1") == T0 + MINUTE
    fleet.clock.set_wall(YEAR)
    assert fleet.boots.since("n1") == fleet.clock.now() - 10 * SECOND, "it keeps its age"


def test_an_agent_that_was_taken_off_leaves_nothing_behind() -> None:
    fleet = Following()
    fleet.clock.step(MINUTE)
    fleet.tells("new")
    fleet.leases.remove("kubenode-agents/n1")
    assert fleet.woken == ["n1", "n1"] and fleet.boots.since("n1") is None
    assert fleet.boots.of(a_node("old", T0), "n1") == "old"
