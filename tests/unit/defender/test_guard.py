"""The admission webhook: whose acts draw on the budget, and what is never held up."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.defender_core import a_node, a_policy, an_ask
from support.guard_world import MASTERS, REMEDY, GuardWorld, a_review, guarding

from defender.decision.ledger import LedgerPermit
from defender.decision.policies import read_policy
from defender.webhook.acts import OUT_OF_SERVICE, SHUT_DOWN, USER, holder_of
from defender.webhook.callers import AUTOSCALERS, CLOUD_CONTROLLERS, callers
from defender.webhook.lifetimes import explain_release
from kubenode.api.v1alpha1 import Disruption, Operation, Reason, Verdict
from kubenode.runtime.admission.app import CannotJudge
from kubenode.runtime.admission.review import BadReview
from kubenode.runtime.kube.errors import ServerUnreachable
from kubenode.runtime.kube.objects import Node

ENFORCED = {"deletions": "Enforce", "cordons": "Enforce", "evictions": "Enforce"}
STRICT = {"deletions": "Enforce"}
OVERRIDE = {"kubenode.io/override": "the rack burns"}


async def test_deletions_at_once_are_held_to_the_limit() -> None:
    world = GuardWorld(guarding(2, deletions="Enforce"))
    said = [await world.delete(f"n{n}") for n in range(10)]
    assert [answer["allowed"] for answer in said] == [True] * 2 + [False] * 8
    assert world.held() == [("n0", "ann"), ("n1", "ann")]
    refused = said[2]["status"]
    assert (refused["code"], refused["reason"]) == (429, "TooManyRequests")
    assert "cluster: 2 of 2" in refused["message"] and "ask again at" in refused["message"]
    assert (world.count("delete", "allowed"), world.count("delete", "denied")) == (2, 8)
    assert set(world.told()) == {"GuardRefused"}


async def test_audit_holds_nothing_up_and_says_what_enforce_would_do() -> None:
    world = GuardWorld(guarding(1, deletions="Audit"))
    world.core.ask(an_ask("n9"))
    said = await world.delete("n0")
    assert said["allowed"] and world.held() == [("n9", "job-n9")]
    assert said["warnings"][0].startswith("Kube Defender would refuse this (ConcurrencyLimit)")
    assert said["auditAnnotations"]["mode"] == "Audit"
    assert world.count("delete", "audited") == 1 and world.told() == ["GuardWouldRefuse"]


async def test_audit_of_what_is_within_the_budget_is_silent() -> None:
    world = GuardWorld(guarding(1, deletions="Audit"))
    said = await world.delete("n0")
    assert said["allowed"] and "warnings" not in said and world.told() == []
    assert world.count("delete", "allowed") == 1


async def test_off_and_by_default_nobody_is_asked_for_cordons_and_evictions() -> None:
    world = GuardWorld(guarding(1))
    world.core.ask(an_ask("n9"))
    assert (await world.cordon("n0"))["allowed"]
    assert (await world.evict("p0"))["allowed"]
    assert world.kube.read == 0, "no pod is read for nothing"
    assert world.count("cordon", "passed") == world.count("evict", "passed") == 1


async def test_the_strictest_policy_decides() -> None:
    world = GuardWorld(
        guarding(1, deletions="Off"),
        a_policy("strict", limits=[{"scope": "Cluster", "maxConcurrent": 1}], guard=STRICT),
    )
    assert (await world.delete("n0"))["allowed"]
    assert not (await world.delete("n1"))["allowed"]


@pytest.mark.parametrize("user", [*CLOUD_CONTROLLERS, *AUTOSCALERS, "ci"])
async def test_cloud_controller_autoscalers_and_exempt_users_are_left_alone(user: str) -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.core.ask(an_ask("n9"))
    assert (await world.delete("n0", user=user))["allowed"]
    assert (await world.evict("p0", user=user))["allowed"]
    assert world.held() == [("n9", "job-n9")]


def test_a_listed_autoscaler_is_held_to_the_budget() -> None:
    known = callers("kubenode-system", listed=[AUTOSCALERS[0]])
    assert not known.is_exempt(AUTOSCALERS[0])
    assert known.is_exempt(AUTOSCALERS[1])


@pytest.mark.parametrize("taint", [OUT_OF_SERVICE, SHUT_DOWN])
async def test_a_machine_that_is_known_to_be_off_may_go(taint: str) -> None:
    world = GuardWorld(guarding(1, deletions="Enforce"))
    world.core.ask(an_ask("n9"))
    off = a_node("n0", ready=False, taints=(taint,))
    off.status.conditions[0].status = "Unknown"
    world.known["n0"] = off
    assert (await world.delete("n0"))["allowed"]
    assert world.count("delete", "passed") == 1
    off.status.conditions[0].status = "False"
    assert not (await world.delete("n0"))["allowed"], "somebody there still reports"


async def test_a_node_that_is_being_deleted_already_costs_nothing_more() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.core.ask(an_ask("n9"))
    world.known["n0"] = a_node("n0", leaving=True)
    for said in (await world.delete("n0"), await world.cordon("n0"), await world.evict("p0")):
        assert said["allowed"] and said["auditAnnotations"]["passed"]


async def test_our_own_programs_need_a_permit_as_well() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.core.ask(an_ask("n9", Disruption.PODS))
    assert (await world.cordon("n9", user=REMEDY))["allowed"]
    assert (await world.evict("p9", user=REMEDY))["allowed"]
    assert world.count("cordon", "passed") == 1
    assert not (await world.cordon("n0", user=REMEDY))["allowed"], "without a permit"
    assert not (await world.delete("n9", user=REMEDY))["allowed"], "class Pods is too weak for it"


async def test_a_permit_that_the_caches_have_not_heard_of_counts() -> None:
    world = GuardWorld(guarding(1, cordons="Enforce"))
    world.core.ask(an_ask("n9"))
    holder = {"kind": "RemedyOperationJob", "name": "j", "uid": "u"}
    spec = {"operation": "Repair", "class": "Node", "nodeName": "n0", "holder": holder}
    world.kube.permits = [{"metadata": {"name": "n0-abc"}, "spec": spec, "status": {}}]
    assert (await world.cordon("n0", user=REMEDY))["allowed"]
    assert world.kube.queries[-1] == {"fieldSelector": "spec.nodeName=n0"}, "not those of all nodes"
    world.kube.permits[0]["status"] = {"state": "Released"}
    assert not (await world.cordon("n0", user=REMEDY))["allowed"]


async def test_a_cordon_of_a_node_that_is_under_a_permit_costs_nothing_more() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.core.ask(an_ask("n9"))
    assert (await world.cordon("n9"))["allowed"] and (await world.evict("p9"))["allowed"]
    said = await world.delete("n9")
    assert not said["allowed"] and "holds permit" in said["status"]["message"]


async def test_a_drain_takes_one_permit() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    assert (await world.cordon("n0"))["allowed"]
    for n in range(3):
        world.pod(f"x{n}", "n0")
        assert (await world.evict(f"x{n}"))["allowed"]
    assert world.held() == [("n0", "ann")]
    assert not (await world.evict("p1"))["allowed"], "of another node"
    assert not (await world.cordon("n1", user="bob"))["allowed"]
    [held] = world.core.ledger.open()
    assert (held.operation, held.class_, held.holder.kind) == (
        Operation.EVACUATE,
        Disruption.PODS,
        USER,
    )


async def test_a_long_drain_renews_its_permit() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    await world.cordon("n0")
    [held] = world.core.ledger.open()
    await world.evict("p0")
    assert world.renewed == []
    world.step(minutes=50)
    await world.evict("p0")
    assert world.renewed == [held.name]


async def test_what_ends_a_disruption_is_never_asked_about() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.core.ask(an_ask("n9"))
    cordoned = {"metadata": {"name": "n0"}, "spec": {"unschedulable": True}}
    free = {"metadata": {"name": "n0"}, "spec": {}}
    for old, new in ((cordoned, free), (cordoned, cordoned), (free, free)):
        body = await world.guard.nodes(a_review("UPDATE", old=old, new=new), 2.0)
        assert body["response"]["allowed"]
    assert world.count("cordon", "denied") == 0


async def test_pods_without_a_node_and_pods_that_are_gone_are_nobodys_business() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.core.ask(an_ask("n9"))
    world.pod("pending", "")
    for pod in ("pending", "gone"):
        assert (await world.evict(pod))["allowed"]


@pytest.mark.parametrize("act", ["delete", "cordon", "evict"])
async def test_an_allowed_group_overrides_and_that_is_told(act: str) -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.core.ask(an_ask("n9"))
    what = "p0" if act == "evict" else "n0"
    acts: dict[str, Any] = {
        "delete": world.delete,
        "cordon": world.cordon,
        "evict": world.evict,
    }
    do = acts[act]
    said = await do(what, annotations=OVERRIDE)
    assert not said["allowed"] and "only members of system:masters" in said["status"]["message"]
    said = await do(what, groups=MASTERS)
    assert not said["allowed"], "without a reason"
    assert "annotate it with kubenode.io/override=REASON" in said["status"]["message"]
    world.told()
    said = await do(what, annotations=OVERRIDE, groups=MASTERS)
    assert said["allowed"] and said["auditAnnotations"] == {"override": "the rack burns"}
    assert world.told() == ["GuardOverridden"] and world.count(act, "overridden") == 1
    assert world.held() == [("n9", "job-n9")]


async def test_the_pods_annotation_overrides_its_eviction() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.core.ask(an_ask("n9"))
    world.kube.pods["p0"]["metadata"]["annotations"] = OVERRIDE
    assert (await world.evict("p0", groups=MASTERS))["allowed"]
    assert not (await world.evict("p0"))["allowed"]


async def test_a_dry_run_takes_nothing_counts_nothing_and_tells_the_answer() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    assert (await world.delete("n0", dry_run=True))["allowed"]
    assert world.held() == []
    world.core.ask(an_ask("n9"))
    assert not (await world.delete("n0", dry_run=True))["allowed"]
    assert world.count("delete", "denied") == world.count("delete", "allowed") == 0
    assert world.told() == []


@pytest.mark.parametrize("mode", ["Audit", "Enforce"])
@pytest.mark.parametrize("reason", [Reason.STALE_DATA, Reason.STORE_UNAVAILABLE, Reason.UNKNOWN])
async def test_what_cannot_be_judged_is_left_to_the_failure_policy(
    mode: str, reason: Reason
) -> None:
    world = GuardWorld(guarding(1, deletions=mode))
    world.says = Verdict(allowed=False, reason=reason, message="nodes are not up to date")
    with pytest.raises(CannotJudge, match="not up to date"):
        await world.delete("n0")
    assert world.count("delete", "error") == 1


async def test_an_unreachable_defender_or_api_server_is_left_to_the_failure_policy() -> None:
    world = GuardWorld(guarding(1, **ENFORCED))
    world.unreachable = True
    with pytest.raises(CannotJudge):
        await world.delete("n0")
    world.kube.fails = ServerUnreachable("away")
    with pytest.raises(CannotJudge):
        await world.evict("p0")


async def test_a_policy_that_cannot_be_read_guards_as_by_default() -> None:
    broken = read_policy(b'{"metadata": {"name": "broken"}, "spec": {"nodes": 3}}')
    world = GuardWorld(broken)
    said = await world.delete("n0")
    assert said["allowed"] and "PolicyInvalid" in said["warnings"][0]
    assert (await world.cordon("n0"))["allowed"]


@pytest.mark.parametrize(
    "raw",
    [
        a_review("DELETE", old={"metadata": {"name": "x"}}, resource="pods"),
        a_review("DELETE", old={"metadata": {}}),
        a_review("UPDATE", old={"metadata": {"name": 3}}, new={"metadata": {"name": "x"}}),
        b"{}",
    ],
)
async def test_what_is_no_question_about_a_node_is_a_bad_review(raw: bytes) -> None:
    with pytest.raises(BadReview):
        await GuardWorld(guarding(1)).guard.nodes(raw, 2.0)


# -- lifetimes ------------------------------------------------------------------------------------


def drawn(class_: Disruption, **change: Any) -> LedgerPermit:
    given: dict[str, Any] = {
        "name": "p",
        "node": "n0",
        "operation": Operation.EVACUATE,
        "holder": holder_of("ann"),
        "grants": [(class_, T0)],
        "expires_at": T0 + timedelta(minutes=15),
    }
    return LedgerPermit(**(given | change))


CORDONED = a_node("n0", schedulable=False)


@pytest.mark.parametrize(
    ("class_", "node", "lasts", "change"),
    [
        (Disruption.NODE, None, 0, {}),
        (Disruption.NODE, a_node("n0"), 1, {}),
        (Disruption.NODE, a_node("n0", leaving=True), 60, {}),
        (Disruption.PODS, None, 0, {}),
        (Disruption.PODS, CORDONED, 15, {}),
        (Disruption.PODS, CORDONED, 25, {"expires_at": T0 + timedelta(minutes=25)}),
        (Disruption.PODS, a_node("n0"), 2, {}),
        (Disruption.PODS, a_node("n0"), 7, {"renewed_at": T0 + timedelta(minutes=5)}),
    ],
)
def test_a_permit_of_others_lasts_as_long_as_its_act(
    class_: Disruption, node: Node | None, lasts: int, change: dict[str, Any]
) -> None:
    held = drawn(class_, **change)
    end = T0 + timedelta(minutes=lasts)
    if lasts:
        assert explain_release(held, node, end - timedelta(seconds=1)) == ""
    assert explain_release(held, node, end) != ""


def test_permits_of_our_own_are_not_ended_here() -> None:
    job = an_ask("n0").holder
    assert explain_release(drawn(Disruption.NODE, holder=job), None, T0 + timedelta(days=9)) == ""


def test_a_user_is_one_holder_whatever_the_name_is_made_of() -> None:
    long = "system:serviceaccount:" + "x" * 400
    assert holder_of(long) == holder_of(long) and len(holder_of(long).name) == 253
    assert holder_of(long).uid != holder_of(long + "y").uid
    assert holder_of("").name == "unknown"
