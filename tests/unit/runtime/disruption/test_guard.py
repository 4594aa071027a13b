"""No destructive act but behind each gate of the protocol."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.audit_lines import Kept
from support.clock import T0, FakeClock
from support.disruption_guard import GuardLevers, live_permit

from kubenode.runtime.disruption.permits import LivePermit
from kubenode.runtime.disruption.request import (
    UNNEEDED,
    ActRefused,
    ActRequest,
    DisruptiveAct,
    LiveTarget,
    RefusalReason,
)
from kubenode.runtime.fence import LeaseLost
from kubenode.runtime.kube.errors import ServerUnreachable

REQUEST = ActRequest(
    DisruptiveAct.DELETE,
    target="x://i",
    node="n",
    who="Machine m",
    request="r-1",
    permit="p",
    holder_uid="u",
    class_="Node",
    expires=T0 + timedelta(minutes=5),
    boot_id="b-1",
    evidence="its Machine is deleted",
)


class Executor:
    """Levers of what the guard asks for, and the order in which it did."""

    def __init__(self, *permits: LivePermit) -> None:
        self.clock, self.audit = FakeClock(), Kept()
        self.levers = GuardLevers(self.clock, *permits, fence=self, audit=self.audit)
        self.stored, self.live = True, LiveTarget(boot_id="b-1")
        self.order: list[str] = []
        self.leads = True

    def check(self) -> int:
        self.order.append("fence")
        if not self.leads:
            raise LeaseLost("another leads")
        return 1

    async def intent(self) -> bool:
        self.order.append("intent")
        return self.stored

    async def target(self) -> LiveTarget:
        self.order.append("target")
        return self.live

    async def act(self) -> str:
        self.order.append("act")
        return "gone"

    async def perform(self, request: ActRequest = REQUEST) -> str:
        guard = self.levers.guard
        return await guard.perform(request, intent=self.intent, target=self.target, act=self.act)

    async def refused(self, request: ActRequest = REQUEST) -> RefusalReason:
        with pytest.raises(ActRefused) as refused:
            await self.perform(request)
        assert "act" not in self.order
        return refused.value.reason


async def test_an_act_is_done_and_audited_once_when_each_gate_lets_it_through() -> None:
    executor = Executor(live_permit())
    for _ in range(3):
        assert await executor.perform() == "gone"
    assert executor.order[:4] == ["intent", "target", "fence", "act"]
    [line] = executor.audit.lines
    assert (line.what, line.outcome, line.request_id, line.node) == ("Delete", "Done", "r-1", "n")
    assert "permit p" in line.why and "its Machine is deleted" in line.why


@pytest.mark.parametrize(
    "permit",
    [
        None,
        live_permit(state="Released"),
        live_permit(state="Revoked"),
        live_permit(state=""),
        live_permit(node="other"),
        live_permit(uid="other"),
        live_permit(class_="Host"),
        live_permit(class_="of a later version"),
    ],
)
async def test_an_act_is_refused_when_its_permit_is_not_valid_now(
    permit: LivePermit | None,
) -> None:
    executor = Executor(*([] if permit is None else [permit]))
    assert await executor.refused() is RefusalReason.NO_PERMIT


@pytest.mark.parametrize("name", ["", UNNEEDED])
async def test_an_act_is_refused_when_a_node_is_concerned_and_no_permit_is_named(name: str) -> None:
    executor = Executor(live_permit())
    assert await executor.refused(replace(REQUEST, permit=name)) is RefusalReason.NO_PERMIT


async def test_a_machine_without_a_node_needs_no_permit() -> None:
    executor = Executor()
    assert await executor.perform(replace(REQUEST, node="", permit=UNNEEDED)) == "gone"


async def test_an_act_is_refused_when_its_intent_is_not_stored() -> None:
    executor = Executor(live_permit())
    executor.stored = False
    assert await executor.refused() is RefusalReason.NO_INTENT


async def test_an_act_is_refused_when_the_live_target_is_another() -> None:
    executor = Executor(live_permit())
    executor.live = LiveTarget("a Node has its address", "b-1")
    assert await executor.refused() is RefusalReason.TARGET_CHANGED


@pytest.mark.parametrize("boot_id", ["", "b-2"])
async def test_an_act_is_refused_when_the_host_booted_since_or_nobody_knows(boot_id: str) -> None:
    executor = Executor(live_permit())
    executor.live = LiveTarget(boot_id=boot_id)
    assert await executor.refused() is RefusalReason.BOOT_CHANGED


async def test_an_act_is_refused_when_it_comes_too_late() -> None:
    executor = Executor(live_permit())
    executor.clock.step(timedelta(minutes=5))
    assert await executor.refused() is RefusalReason.EXPIRED


async def test_an_act_is_refused_when_it_expires_while_the_target_is_read() -> None:
    executor = Executor(live_permit())

    async def slow() -> LiveTarget:
        executor.clock.step(timedelta(minutes=6))
        return executor.live

    executor.target = slow  # type: ignore[method-assign]
    assert await executor.refused() is RefusalReason.EXPIRED


async def test_an_act_is_refused_while_the_cluster_is_frozen() -> None:
    executor = Executor(live_permit())
    executor.levers.frozen = "the cluster's data were restored"
    assert await executor.refused() is RefusalReason.FROZEN
    [line] = executor.audit.lines
    assert line.outcome == "Refused" and "restored" in line.why


async def test_an_act_is_not_done_when_the_lease_is_lost() -> None:
    executor = Executor(live_permit())
    executor.leads = False
    with pytest.raises(LeaseLost):
        await executor.perform()
    assert "act" not in executor.order


@pytest.mark.parametrize("what", ["intent", "target", "permit"])
async def test_an_act_is_refused_when_what_it_depends_on_cannot_be_read(what: str) -> None:
    executor = Executor(live_permit())

    async def away(*_: object) -> None:
        raise ServerUnreachable("no answer")

    if what == "permit":
        executor.levers.permits.read = away  # type: ignore[assignment,method-assign]
    else:
        setattr(executor, what, away)
    assert await executor.refused() is RefusalReason.UNREADABLE


async def test_an_act_whose_answer_is_lost_is_audited_as_unknown() -> None:
    executor = Executor(live_permit())

    async def lost() -> str:
        raise TimeoutError("no answer")

    executor.act = lost  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await executor.perform()
    assert [line.outcome for line in executor.audit.lines] == ["Unknown"]
