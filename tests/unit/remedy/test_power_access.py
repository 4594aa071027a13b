"""How a provider's words become outcomes, and who counts as a replacement."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.disruption_guard import GuardLevers, live_permit
from support.power_provider import MemoryProvider
from support.remedy_builders import NODE as NODE_NAME
from support.remedy_builders import a_job, by_kubelet, seen

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.kube.errors import Conflict, Forbidden, KubeError
from kubenode.runtime.kube.errors import ServerUnreachable as NoServer
from kubenode.runtime.kube.errors import TooManyRequests as TooMany
from kubenode.runtime.kube.objects import (
    KubeObjectMeta,
    Node,
    NodeCondition,
    NodeInfo,
    NodeSpec,
    NodeStatus,
)
from remedy.job.model import NodeObservation, StepAct
from remedy.job.power_record import PowerAct
from remedy.job.steps.replace import ReplaceAct
from remedy.power.access import PATIENT, PowerAccess
from remedy.power.instancegroup import InstanceGroup, group_of
from remedy.power.leave import REQUEST_VALUES
from remedy.power.methods import BootOf, ReplacementRequest, ReplacementTarget, outcome_of
from remedy.power.observation import RequestOutcome
from remedy.power.replacer import Replacing

NODE = NodeObservation(provider_id="memory:///n1", ready="Unknown")


class Sick(MemoryProvider):
    """Answers everything with one error."""

    error: ProviderError | None = None
    readings = 0

    async def power(self, machine: ProviderMachine) -> Power:
        self.readings += 1
        if self.error is not None:
            raise self.error
        return await super().power(machine)

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        if self.error is not None:
            raise self.error
        await super().reset(machine, request)


def a_rebooting_job(**changes: Any) -> Any:
    record = {"rung": 0, "index": 0, "name": "reboot", "state": "Running", "by": "Provider"}
    record |= {
        "requestID": "r0s0a1",
        "askedAt": T0.isoformat(),
        "output": {"machine": "memory:///n1", "asked": "reset"},
    }
    permit = {"name": "p", "class": "Node"}
    status = {"phase": "Running", "steps": [record | changes], "permit": permit}
    return a_job({"name": "r", "steps": [{"reboot": {}}]}, status=status)


class LiveNode:
    """The Node as the API server has it; None: it is gone."""

    def __init__(self, node: NodeObservation | None = NODE) -> None:
        self.node = node

    async def read(self, job: Any, *, live: bool) -> NodeObservation | None:
        assert live
        return self.node


def a_guard(clock: FakeClock | None = None) -> GuardLevers:
    job = a_rebooting_job()
    permit = live_permit("p", job.spec.node_name, job.uid)
    return GuardLevers(clock or FakeClock(), permit)


def an_access(
    *providers: MemoryProvider,
    clock: FakeClock | None = None,
    levers: GuardLevers | None = None,
    node: NodeObservation | None = NODE,
) -> PowerAccess:
    clock = clock or FakeClock()
    guard = (levers or a_guard(clock)).guard
    return PowerAccess(Providers(providers), clock, guard, LiveNode(node))


@pytest.mark.parametrize(
    ("error", "outcome", "says"),
    [
        (Unreachable("p", "no route"), RequestOutcome.UNCLEAR, "no route"),
        (Throttled("p", "slow down", timedelta(seconds=9)), RequestOutcome.LATER, "slow down"),
        (Busy("p", "another operation"), RequestOutcome.LATER, "another operation"),
        (Denied("p", "AccessDenied"), RequestOutcome.REFUSED, "give its credentials the right"),
        (
            Refused("p", "the group would replace it"),
            RequestOutcome.REFUSED,
            "the group would replace it",
        ),
        (Unsupported("p", "no reset"), RequestOutcome.REFUSED, "name another way"),
        (NoSuchMachine("p", "i-1"), RequestOutcome.GONE, "does not know this machine"),
    ],
)
async def test_a_providers_no_says_what_follows_and_what_a_person_can_do(
    error: ProviderError, outcome: RequestOutcome, says: str
) -> None:
    provider = Sick()
    provider.error = error
    access = an_access(provider)
    heard = await access.act(a_rebooting_job(), PowerAct.RESET, seen(node=NODE))
    assert heard.outcome is outcome and says in heard.error
    power = await access.power(a_rebooting_job(), NODE)
    assert power.power is None and not power.dark
    assert (power.outcome, power.provider) == (outcome, "memory")
    assert power.after == getattr(error, "after", None)


async def test_a_machine_without_a_provider_is_refused_with_its_id() -> None:
    access = an_access()
    power = await access.power(a_rebooting_job(), NODE)
    heard = await access.act(a_rebooting_job(), PowerAct.RESET, seen(node=NODE))
    assert power.outcome is heard.outcome is RequestOutcome.REFUSED
    assert "memory:///n1" in power.why and "memory:///n1" in heard.error


async def test_the_request_is_the_same_for_the_same_job_and_no_other() -> None:
    provider = MemoryProvider()
    access = an_access(provider)
    job = a_rebooting_job()
    await access.act(job, PowerAct.RESET, seen(node=NODE))
    await access.act(
        job, PowerAct.RESET, seen(node=None)
    )  # it was not read: the record knows the machine
    assert provider.requests == [f"{job.uid}.r0s0a1"] * 2


async def test_one_reading_serves_the_rounds_of_a_run_and_no_more() -> None:
    provider, clock = Sick(), FakeClock()
    access = an_access(provider, clock=clock)
    for _ in range(3):
        await access.power(a_rebooting_job(), NODE)
    assert provider.readings == 1
    clock.step(timedelta(seconds=1.1))
    await access.power(a_rebooting_job(), NODE)
    assert provider.readings == 2
    await access.act(a_rebooting_job(), PowerAct.RESET, seen(node=NODE))
    await access.power(a_rebooting_job(), NODE)
    assert provider.readings == 3, "after an act the machine is looked at anew"


async def test_drains_look_at_a_running_machine_seldom_and_at_a_dark_one_always() -> None:
    provider, clock = Sick(), FakeClock()
    access = an_access(provider, clock=clock)
    record = {"rung": 0, "index": 0, "name": "migrate", "state": "Running"}
    status = {"phase": "Running", "steps": [record]}
    job = a_job({"name": "r", "steps": [{"migrate": {}}]}, status=status)
    for _ in range(10):
        await access.power(job, NODE)
        clock.step(timedelta(seconds=1.5))
    assert provider.readings == 1
    provider.state["memory:///n1"] = PowerState.OFF
    clock.step(timedelta(seconds=PATIENT))
    for _ in range(3):
        assert (await access.power(job, NODE)).dark
        clock.step(timedelta(seconds=1.5))
    assert provider.readings == 4


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NoServer("connection reset"), RequestOutcome.UNCLEAR),
        (KubeError(503), RequestOutcome.UNCLEAR),
        (TooMany(429, retry_after=3), RequestOutcome.LATER),
        (Forbidden(403), RequestOutcome.REFUSED),
        (Conflict(409), RequestOutcome.REFUSED),
    ],
)
def test_an_api_servers_no_becomes_an_outcome(error: KubeError, outcome: RequestOutcome) -> None:
    assert outcome_of(error)[0] is outcome


# -- instance groups -------------------------------------------------------------------------------


class Nodes:
    """Of an informer what is read."""

    def __init__(self, *nodes: Node) -> None:
        self.cache = {node.metadata.name: node for node in nodes}

    def get(self, name: str) -> Node | None:
        return self.cache.get(name)


def a_node(name: str, uid: str = "", *, boot: str = "boot-1", age: int = 0, **labels: Any) -> Node:
    """`age` in minutes before T0, negative for one to come."""
    made = T0 - timedelta(minutes=age)
    return Node(
        KubeObjectMeta(name=name, uid=uid or f"uid-{name}", labels=labels, creation_timestamp=made),
        NodeSpec(provider_id=f"memory:///{name}"),
        NodeStatus([NodeCondition("Ready", "True")], NodeInfo(boot_id=boot)),
    )


POOL = {"kubenode.io/pool": "a"}
OLD = a_node("n1", age=600, **POOL)
ASKED = ReplacementRequest(
    "n1", "uid-n1", "memory:///n1", "kubenode.io/pool=a", T0, "job.r0s0a1", "boot-1", "agent-1"
)


def a_group(
    *nodes: Node, can: Can | None = None, boot_of: BootOf = by_kubelet
) -> tuple[InstanceGroup, MemoryProvider]:
    provider = MemoryProvider(can=can or Can(replace=True))
    return InstanceGroup(Providers([provider]), Nodes(*nodes), boot_of), provider


async def test_a_young_ready_node_of_the_same_group_is_the_replacement() -> None:
    young = a_node("n9", age=-2, **POOL)
    group, provider = a_group(OLD, young)
    found = await group.find(OLD)
    assert found == ReplacementTarget(
        "memory:///n1", "kubenode.io/pool=a", "2026-01-01T12:02:00.000Z uid-n9"
    )
    assert (await group.ask(ASKED)).outcome is RequestOutcome.TAKEN
    far = await group.far(ASKED)
    assert (far.gone, far.new) == (True, "n9")
    assert provider.requests == ["job.r0s0a1"]


@pytest.mark.parametrize(
    "other",
    [
        a_node("n2", age=60, **POOL),
        a_node("n3", age=-2, **{"kubenode.io/pool": "b"}),
        a_node("n1", "uid-n1", age=-2, **POOL),
    ],
    ids=["older", "of another group", "the old one itself"],
)
async def test_another_node_is_none(other: Node) -> None:
    group, _ = a_group(other)
    assert (await group.far(ASKED)).new == ""


async def test_another_node_under_the_old_name_is_the_replacement() -> None:
    group, _ = a_group(a_node("n1", "uid-2", age=-2))
    assert (await group.far(ASKED)).new == "n1"


async def test_a_group_that_renews_its_machine_is_done_after_the_boot() -> None:
    can = Can(replace=True, renews=True)
    group, _ = a_group(OLD, can=can)
    assert not (await group.far(ASKED)).renewed
    group, _ = a_group(a_node("n1", age=600, boot="boot-2", **POOL), can=can)
    assert (await group.far(ASKED)).renewed


async def test_a_machine_is_not_renewed_by_the_boot_that_it_was_asked_of() -> None:
    """The job asked of the boot that the agent tells; the Node still tells the one before."""
    can = Can(replace=True, renews=True)
    group, _ = a_group(a_node("n1", age=600, boot="boot-0", **POOL), can=can, boot_of=by_agent)
    assert not (await group.far(ASKED)).renewed


def by_agent(node: Node, agent: str) -> str:
    assert agent == "agent-1"
    return "boot-1"


@pytest.mark.parametrize("before", ["", "boot-1"])
@pytest.mark.parametrize("now", ["", "boot-1"])
async def test_an_unknown_boot_renews_nothing(before: str, now: str) -> None:
    can = Can(replace=True, renews=True)
    group, _ = a_group(a_node("n1", age=600, boot=now, **POOL), can=can)
    assert not (await group.far(replace(ASKED, boot_id=before))).renewed


async def test_a_provider_without_groups_does_not_apply() -> None:
    group, _ = a_group(OLD, can=Can(off=True))
    said = await group.find(OLD)
    assert isinstance(said, str) and "no groups" in said


def test_a_node_without_a_group_label_is_one_of_its_providers() -> None:
    assert group_of(a_node("n1")) == "scheme=memory"
    labels = {"eks.amazonaws.com/nodegroup": "ng"}
    assert group_of(a_node("n1", age=0, **labels)) == "eks.amazonaws.com/nodegroup=ng"


# -- the guard of destructive acts -----------------------------------------------------------------

ELSEWHERE = NodeObservation(provider_id="memory:///n9", boot_id="boot-1")
REBOOTED = NodeObservation(provider_id="memory:///n1", boot_id="boot-2")
FREEZES = "the cluster's data were restored from a backup"


def replacing_with(
    levers: GuardLevers, provider: MemoryProvider, node: NodeObservation | None
) -> Any:
    return Replacing(
        None,  # type: ignore[arg-type]
        Nothing(),
        Providers([provider]),
        lambda node, agent: "",
        levers.guard,
        LiveNode(node),
    )


def against(case: str, levers: GuardLevers) -> NodeObservation | None:
    """Sets one lever; what the live read of the Node says."""
    match case:
        case "frozen":
            levers.frozen = FREEZES
        case "no permit":
            levers.permits.permits.clear()
        case "another's permit":
            levers.permits.permits["p"] = live_permit("p", NODE_NAME, "uid of another")
        case "a weaker permit":
            job = a_rebooting_job()
            levers.permits.permits["p"] = live_permit("p", NODE_NAME, job.uid, "Host")
        case "node gone":
            return None
        case "another machine":
            return ELSEWHERE
        case "booted":
            return REBOOTED
        case "boot unknown":
            return NODE
        case _:
            pass
    return replace(REBOOTED, boot_id="boot-1")


CASES = {
    "frozen": "Frozen",
    "no permit": "NoPermit",
    "another's permit": "NoPermit",
    "a weaker permit": "NoPermit",
    "node gone": "TargetChanged",
    "another machine": "TargetChanged",
    "booted": "BootChanged",
    "boot unknown": "TargetChanged",
    "too late": "Expired",
    "another wish": "NoIntent",
    "nothing": "",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("act", [PowerAct.POWER_OFF, PowerAct.RESET, ReplaceAct.REPLACE])
async def test_a_machine_is_stopped_reset_or_replaced_only_when_nothing_is_against_it(
    act: StepAct, case: str
) -> None:
    provider, clock = MemoryProvider(), FakeClock()
    levers = a_guard(clock)
    node = against(case, levers)
    word = "on" if case == "another wish" else REQUEST_VALUES[act]
    output = {"machine": "memory:///n1", "asked": word}
    output |= {"path": "InstanceGroup", "target": "memory:///n1", "group": "g"}
    changes: dict[str, Any] = {"bootID": "boot-1", "output": output}
    changes["expiresAt"] = (T0 + timedelta(minutes=5)).isoformat()
    job = a_rebooting_job(**changes)
    if case == "too late":
        clock.step(timedelta(minutes=5))
    if act is ReplaceAct.REPLACE:
        heard = await replacing_with(levers, provider, node).act(job, act, seen(node=NODE))
    else:
        access = an_access(provider, clock=clock, levers=levers, node=node)
        heard = await access.act(job, act, seen(node=NODE))
    if not CASES[case]:
        assert heard.outcome is RequestOutcome.TAKEN and len(provider.requests) == 1
        assert levers.permits.reads == 1
        return
    assert heard.outcome is RequestOutcome.PREVENTED and heard.error.startswith(CASES[case])
    assert heard.booted is (case == "booted") and not provider.requests


@pytest.mark.parametrize("case", CASES)
async def test_a_machine_is_switched_on_whatever_is_against_other_acts(case: str) -> None:
    provider, levers = MemoryProvider(), a_guard()
    access = an_access(provider, levers=levers, node=against(case, levers))
    heard = await access.act(a_rebooting_job(), PowerAct.POWER_ON, seen(node=NODE))
    assert heard.outcome is RequestOutcome.TAKEN and len(provider.requests) == 1
    assert levers.permits.reads == 0


class Nothing:
    """No Node is known."""

    cache: Mapping[str, Node] = MappingProxyType({})

    def get(self, key: str) -> Node | None:
        return None
