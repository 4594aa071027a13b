"""A host that hangs, as the operator sees it: who is asked, and what silence means."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.remedy_facts import a_node, a_probe

from kubenode.api.v1alpha1 import HostProbe
from kubenode.providers.errors import Denied
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.objects import Node
from remedy.hostprobes import witnesses
from remedy.hostprobes.desk import WITNESS_TIMEOUT, ProbeResult, ProbeService
from remedy.hostprobes.schedule import unanswered
from remedy.hostprobes.witnesses import Witness, WitnessAddress, choose, order, verdict

SECOND = timedelta(seconds=1)
ZONE, RACK = "topology.kubernetes.io/zone", "kubenode.io/rack"


class Ages:
    """Seconds by name; others are unknown."""

    def __init__(self, ages: Mapping[str, float | None]) -> None:
        self.ages = dict(ages)

    def age(self, name: str) -> float | None:
        return self.ages.get(name)

    def changes_at(self, name: str) -> None:
        return None

    def rules_loaded(self, rules: Iterable[Any]) -> None:
        return None


class Bare:
    """A provider of machines `bare://...`, whose power the test sets."""

    name = "bare"
    can = Can(off=True)

    def __init__(self, state: PowerState | Exception = PowerState.ON) -> None:
        self.state = state

    def owns(self, machine: ProviderMachine) -> bool:
        return machine.provider_id.startswith("bare://")

    async def power(self, machine: ProviderMachine) -> Power:
        if isinstance(self.state, Exception):
            raise self.state
        return Power(self.state, "as set", T0)


class Cluster:
    """Nodes, questions and what the API server is asked for; the desk under test."""

    def __init__(self, nodes: int = 6, provider: Any = None) -> None:
        self.clock = FakeClock()
        self.cache: dict[str, Node] = {f"n{i}": self.node(f"n{i}") for i in range(nodes)}
        self.leases = Ages({name: 2.0 for name in self.cache} | {"n0": 16.0})
        self.agents = Ages({name: 5.0 for name in self.cache} | {"n0": 16.0})
        self.asked: dict[str, HostProbe] = {}
        providers = Providers([provider]) if provider is not None else None
        self.desk = ProbeService(
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self.leases,
            self.agents,
            providers,
            self.clock,
            AlwaysLeader(),
        )

    def node(self, name: str, ready: str = "True", **labels: str) -> Node:
        number = name.removeprefix("n")
        status = {"addresses": [{"type": "InternalIP", "address": f"10.0.0.{number}"}]}
        spec = {"providerID": f"bare://{name}"}
        return a_node(name, T0, Ready=ready, status=status, spec=spec, labels=labels)

    # -- an informer of Nodes, one of HostProbes, and the API server

    def get(self, name: str) -> Node | None:
        return self.cache.get(name)

    def by(self, index: str, value: str) -> list[HostProbe]:
        return [p for p in self.asked.values() if value in witnesses.part_of(p)]

    async def create(self, path: str, body: Any) -> None:
        probe = HostProbe.model_validate(body)
        probe.metadata.creation_timestamp = self.clock.now()
        if probe.metadata.name in self.asked:
            raise AlreadyExists(409, "AlreadyExists", probe.metadata.name)
        self.asked[probe.metadata.name] = probe

    def says(self, number: int, error: str = "", **answer: bool) -> None:
        """A witness answers."""
        name = list(self.asked)[number]
        given = {"answer": answer, "answered_at": self.clock.now(), "error": error}
        probe = self.asked[name]
        self.asked[name] = probe.model_copy(
            update={"status": probe.status.model_copy(update=given)}
        )

    async def find(self, kind: str, node: str = "n0") -> Any:
        return await self.desk.find(a_probe(kind, T0, node))


# -- peers


async def test_three_other_nodes_are_asked_each_with_another_to_prove_itself() -> None:
    cluster = Cluster()
    assert await cluster.find("peers") == SECOND
    asked = [p.spec for p in cluster.asked.values()]
    assert len(asked) == 3 and len({spec.agent for spec in asked}) == 3
    for spec in asked:
        assert spec.node_name == "", "an answer about another host is no fact of the witness"
        assert (spec.args["address"], spec.args["port"]) == ("10.0.0.0", "10250")
        assert spec.args["controlAddress"] not in ("10.0.0.0", f"10.0.0.{spec.agent[1:]}")
        assert spec.agent != "n0"
    again = dict(cluster.asked)
    assert await cluster.find("peers") == SECOND
    assert cluster.asked == again, "asked once"


async def test_what_all_of_them_say_is_the_answer() -> None:
    cluster = Cluster()
    await cluster.find("peers")
    for number in range(3):
        assert await cluster.find("peers") == SECOND
        cluster.says(number, reached=False, control=True)
    assert await cluster.find("peers") == ProbeResult({"reachable": False})


async def test_two_are_enough_when_the_third_says_nothing_in_time() -> None:
    cluster = Cluster()
    await cluster.find("peers")
    cluster.says(0, reached=False, control=True)
    cluster.says(1, reached=False, control=True)
    assert await cluster.find("peers") == SECOND
    cluster.clock.step(WITNESS_TIMEOUT)
    assert await cluster.find("peers") == ProbeResult({"reachable": False})


async def test_f05_one_peers_word_is_not_enough() -> None:
    cluster = Cluster()
    await cluster.find("peers")
    cluster.says(0, reached=False, control=True)
    cluster.says(1, reached=False, control=False)  # reaches nobody: its word is worth nothing
    cluster.says(2, error="Network is unreachable")
    found = await cluster.find("peers")
    assert isinstance(found, ProbeResult) and found.answer == {}
    assert "1 of 3 witnesses" in found.error


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([], {}),
        ([False], {}),
        ([True], {}),
        ([False, None, None], {}),
        ([False, False], {"reachable": False}),
        ([False, False, None], {"reachable": False}),
        ([True, True, False], {"reachable": True}),
        ([True, False], {}),
        ([True, False, False], {}),
        ([True, True, True], {"reachable": True}),
    ],
)
def test_f05_words_of_witnesses(words: list[bool | None], answer: dict[str, bool]) -> None:
    assert verdict(words) == answer


async def test_nobody_is_troubled_for_a_host_that_is_heard() -> None:
    cluster = Cluster()
    cluster.leases.ages["n0"] = 4.0
    assert await cluster.find("peers") == SECOND
    assert cluster.asked == {}
    cluster.cache["n0"] = cluster.node("n0", "Unknown")
    await cluster.find("peers")
    assert len(cluster.asked) == 3


async def test_without_two_living_agents_there_is_no_answer() -> None:
    cluster = Cluster()
    cluster.agents.ages = {"n1": 3.0, "n2": 40.0, "n3": None}
    found = await cluster.find("peers")
    assert isinstance(found, ProbeResult) and found.answer == {} and "two are needed" in found.error


def a_witness(name: str, **places: str) -> Witness:
    return Witness(name, name, WitnessAddress("10.1.0.1", 10250), frozenset(places.items()))


def test_witnesses_stand_in_different_places_rather_than_beside_the_host() -> None:
    target = a_node("t", T0, labels={ZONE: "a", RACK: "a1"})
    near = [a_witness(f"near{i}", zone="a", rack="a1") for i in range(5)]
    far = [a_witness("b", zone="b", rack="b1"), a_witness("b2", zone="b", rack="b1")]
    far += [a_witness("c", zone="c", rack="c1"), a_witness("other-rack", zone="a", rack="a2")]
    assert [w.node for w in choose(target, [*near, *far])] == ["b", "c", "b2"]
    assert [w.node for w in choose(target, [*near, far[3]])] == ["other-rack", "near0", "near1"]


def test_no_node_is_everybodys_witness() -> None:
    names = [f"n{i}" for i in range(100)]
    first = {order(target, names)[0] for target in names}
    assert len(first) > 40
    assert all(target not in order(target, names) for target in names)


# -- power


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (PowerState.ON, "running"),
        (PowerState.OFF, "stopped"),
        (PowerState.GONE, "absent"),
        (PowerState.STARTING, "unknown"),
        (PowerState.STOPPING, "unknown"),
        (PowerState.UNKNOWN, "unknown"),
    ],
)
async def test_the_provider_says_whether_the_machine_is_on(state: PowerState, word: str) -> None:
    assert await Cluster(provider=Bare(state)).find("power") == ProbeResult({"cloud_state": word})


async def test_a_provider_that_does_not_say_leaves_it_unknown() -> None:
    found = await Cluster(provider=Bare(Denied("bare", "expired"))).find("power")
    assert found == ProbeResult({}, "bare: expired")
    cluster = Cluster(provider=Bare())
    cluster.cache["n0"] = a_node("n0", T0, spec={"providerID": "aws:///eu-1a/i-1"})
    assert await cluster.find("power") == ProbeResult(
        {}, "no provider is set up for this machine (aws:///eu-1a/i-1)"
    )
    assert await Cluster().find("power") is None, "others may answer"


def test_guards_do_not_wait_for_what_nobody_answers() -> None:
    assert "power.cloud_state" in unanswered(providers=False)
    assert "power.cloud_state" not in unanswered(providers=True)
    assert "peers.reachable" not in unanswered(providers=False)


# -- the agent


async def test_an_agent_is_dead_once_its_lease_is_old_and_not_when_it_never_was() -> None:
    cluster = Cluster()
    assert await cluster.find("host") == 2 * SECOND
    cluster.agents.ages["n0"] = 18.5
    assert await cluster.find("host") == ProbeResult({"agent": "dead"})
    cluster.agents.ages["n0"] = None
    assert await cluster.find("host") == SECOND
    cluster.agents.ages["n0"] = 1.0
    found = await cluster.find("host")
    assert isinstance(found, timedelta) and found >= SECOND, "the agent answers itself"


async def test_other_questions_are_for_the_agent() -> None:
    assert await Cluster().find("disk") is None
    cluster = Cluster()
    await cluster.find("peers")
    (first, *_) = cluster.asked.values()
    assert await cluster.desk.find(first) is None, "a witness is asked, not the operator"
