"""What a Machine says of its agent, and by which signs it knows."""

from datetime import timedelta
from itertools import product

import pytest
from support.clock import T0, FakeClock

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import MachineBootstrap
from kubenode.runtime.kube.wire import HeadMeta
from machine.bootstrap.agentready import AgentObservation, Lifesign, agent_ready
from machine.bootstrap.controller import conditions_with
from machine.bootstrap.lifesigns import AgentLease, AgentLeaseSpec, Lifesigns
from machine.metrics import CertificateState, state_of

LATER, BEFORE = T0 + timedelta(days=20), T0 - timedelta(days=1)


def an_agent(
    lifesign: Lifesign = Lifesign.STALE,
    ends: object = LATER,
    denied: str = "",
    reissue: bool = False,
) -> AgentObservation:
    return AgentObservation("m", lifesign, ends, denied, reissue, T0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("agent", "reason", "says"),
    [
        (an_agent(Lifesign.FRESH), "LeaseFresh", "renews its Lease"),
        (an_agent(Lifesign.FRESH, ends=None), "LeaseFresh", ""),
        (an_agent(Lifesign.ABSENT, ends=None), "Waiting", "kubenode machine token m"),
        (an_agent(Lifesign.ABSENT, None, "csr: KeyNotAllowed: x"), "CertificateDenied", "KeyNot"),
        (an_agent(ends=BEFORE), "CertificateExpired", "kubenode machine reissue m"),
        (an_agent(ends=BEFORE, reissue=True), "CertificateExpired", "kubenode machine token m"),
        (an_agent(), "LeaseStale", "kubenode-agent"),
        (an_agent(Lifesign.ABSENT), "LeaseStale", ""),
        (an_agent(denied="csr: CertificateIsLive: x"), "CertificateDenied", "IsLive"),
    ],
)
def test_f25_why_an_agent_is_not_there_is_shown_with_the_way_back(
    agent: AgentObservation, reason: str, says: str
) -> None:
    said = agent_ready(agent)
    assert said is not None and said.reason == reason
    assert says in said.message
    assert (said.status == "True") == (reason == "LeaseFresh")


def test_what_is_not_known_yet_changes_nothing_but_the_end_of_a_certificate() -> None:
    for ends, denied in product((None, LATER), ("", "no")):
        assert agent_ready(an_agent(Lifesign.UNKNOWN, ends, denied)) is None
    said = agent_ready(an_agent(Lifesign.UNKNOWN, BEFORE))
    assert said is not None and said.reason == "CertificateExpired"


def test_no_message_changes_while_nothing_does() -> None:
    """Or each look would patch."""
    for sign, ends, denied in product(Lifesign, (None, BEFORE, LATER), ("", "no")):
        said = agent_ready(an_agent(sign, ends, denied))
        later = AgentObservation("m", sign, ends, denied, False, T0 + timedelta(hours=5))
        assert agent_ready(later) == said


def test_a_condition_keeps_its_transition_and_its_neighbours() -> None:
    raw = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "m"},
        "spec": {"addresses": ["10.0.0.1"]},
        "status": {
            "conditions": [
                {
                    "type": "Available",
                    "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    }
    machine = Machine.model_validate(raw)
    waiting = agent_ready(an_agent(Lifesign.ABSENT, None))
    assert waiting is not None
    first = conditions_with(machine, waiting, T0)
    assert first is not None and [c["type"] for c in first] == ["Available", "AgentReady"]
    said = Machine.model_validate({**raw, "status": {"conditions": first}})
    assert conditions_with(said, waiting, LATER) is None
    stale = agent_ready(an_agent())
    assert stale is not None
    second = conditions_with(said, stale, LATER)
    assert second is not None
    assert second[1]["lastTransitionTime"] == first[1]["lastTransitionTime"]


class Watched:
    """Lifesigns over a cache that a test fills."""

    def __init__(self, listed: bool = False) -> None:
        self.clock, self.current, self.listed = FakeClock(), True, listed
        self.woken: list[str] = []
        self.signs = Lifesigns(
            self.clock, lambda: self.current, lambda: self.listed, self.woken.append
        )
        self._known: AgentLease | None = None

    def lease(self, renewed: str | None) -> None:
        meta = HeadMeta(name="m", resource_version="1", namespace="kubenode-agents")
        new = None if renewed is None else AgentLease(meta, AgentLeaseSpec(renewed))
        self.signs.changed("kubenode-agents/m", self._known, new)
        self._known = new


def test_a_lease_that_was_there_before_us_says_nothing_until_it_changes() -> None:
    watched = Watched()
    assert watched.signs.of("m") is Lifesign.ABSENT
    watched.lease("12:00")
    assert watched.signs.of("m") is Lifesign.UNKNOWN
    watched.lease("12:10")
    assert watched.signs.of("m") is Lifesign.FRESH
    watched.clock.step(timedelta(seconds=120))
    assert watched.signs.of("m") is Lifesign.STALE


def test_a_lease_that_is_made_while_we_look_is_a_sign_of_life() -> None:
    watched = Watched(listed=True)
    watched.lease("12:00")
    assert watched.signs.of("m") is Lifesign.FRESH
    assert watched.woken == ["m"]


def test_our_own_blindness_is_no_silence_of_an_agent() -> None:
    watched = Watched(listed=True)
    watched.lease("12:00")
    watched.current = False
    watched.clock.step(timedelta(hours=1))
    assert watched.signs.of("m") is Lifesign.UNKNOWN


def test_many_are_told_of_at_one_instant() -> None:
    watched = Watched(listed=True)
    watched.lease("12:00")
    of = watched.signs.now()
    assert (of("m"), of("another")) == (Lifesign.FRESH, Lifesign.ABSENT)
    watched.clock.step(timedelta(seconds=120))
    assert (of("m"), watched.signs.now()("m")) == (Lifesign.FRESH, Lifesign.STALE)


def test_a_renewal_wakes_nobody_who_knows_already() -> None:
    watched = Watched(listed=True)
    for minute in range(5):
        watched.lease(f"12:{minute}")
    assert watched.woken == ["m"]
    watched.lease(None)
    assert watched.woken == ["m", "m"] and watched.signs.of("m") is Lifesign.ABSENT


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        (None, CertificateState.NONE),
        (LATER, CertificateState.LIVE),
        (T0 + timedelta(days=4), CertificateState.ENDING),
        (BEFORE, CertificateState.EXPIRED),
    ],
)
def test_f24_a_certificate_that_nobody_renews_is_counted_before_it_ends(
    ends: object, state: CertificateState
) -> None:
    raw = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "m"},
        "spec": {"addresses": ["10.0.0.1"]},
    }
    machine = Machine.model_validate(raw)
    bootstrap = MachineBootstrap(certificate_expires_at=ends)
    status = machine.status.model_copy(update={"bootstrap": bootstrap})
    assert state_of(machine.model_copy(update={"status": status}), T0) is state
