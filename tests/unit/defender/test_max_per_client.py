"""maxPerClient: what it counts, when it refuses, and where its use is shown."""

from dataclasses import replace

import pytest
from support.dashboard_scenes import a_scene
from support.defender_core import NEVER_TRIPS, ZONE, Core, a_policy, an_ask
from support.defender_queue import WaitingRoom

from defender.dashboard.render import Renderer
from defender.dashboard.views.budgets import view
from defender.decision.budgets import budgets
from defender.decision.clients import GUARDED_USER, PROGRAMS, client_of
from defender.decision.policies import LoadedPolicy
from defender.server.auth.holders import users_of
from defender.webhook.acts import holder_of
from kubenode.api.v1alpha1 import Ask, Disruption, Reason
from kubenode.api.v1alpha1.permit import Holder

KURED, OTHER = "system:serviceaccount:kube-system:kured", "system:serviceaccount:tools:other"


def policy(most: int, **scope: str) -> LoadedPolicy:
    limit = {"scope": "Cluster", "maxPerClient": most} | scope
    return a_policy(limits=[limit], breaker=NEVER_TRIPS)


def asked_by(user: str | None, node: str, class_: Disruption = Disruption.NODE) -> Ask:
    holder = Holder(kind="Reboot", name=f"reboot-{node}", uid=f"uid-{node}", user=user)
    return an_ask(node, class_).model_copy(update={"holder": holder})


def a_core(most: int, **scope: str) -> Core:
    core = Core(policy(most, **scope))
    core.fleet(20)
    return core


def a_room(most: int) -> WaitingRoom:
    room = WaitingRoom(policy(most))
    room.fleet(20)
    return room


def test_a_client_holds_no_more_than_its_share_and_others_go_on() -> None:
    core = a_core(2)
    assert core.ask(asked_by(KURED, "n0")).allowed
    assert core.ask(asked_by(KURED, "n1")).allowed
    refusal = core.judge(asked_by(KURED, "n2"))
    assert (refusal.reason, refusal.scope) == (Reason.CLIENT_LIMIT, "cluster")
    assert (refusal.used, refusal.limit) == (2, 2)
    assert f"cluster: {KURED} holds 2 of 2 permits" in refusal.message
    assert refusal.look_again_at is not None and refusal.look_again_at > core.now
    assert core.judge(asked_by(OTHER, "n2")).allowed
    assert core.judge(an_ask("n2")).allowed


def test_a_returned_permit_makes_room() -> None:
    core = a_core(1)
    core.ask(asked_by(KURED, "n0"))
    core.ledger.release(next(iter(core.ledger)), core.now)
    assert core.judge(asked_by(KURED, "n1")).allowed


def test_the_permit_of_the_same_holder_does_not_count_against_it() -> None:
    core = a_core(1)
    core.ask(asked_by(KURED, "n0", Disruption.PODS))
    assert core.judge(asked_by(KURED, "n0")).allowed


@pytest.mark.parametrize("kind", sorted(PROGRAMS))
def test_programs_of_kubenode_are_no_clients(kind: str) -> None:
    core = a_core(0)
    program = Holder(kind=kind, name="x", uid="x", user="system:serviceaccount:kubenode-system:x")
    assert core.ask(an_ask("n0").model_copy(update={"holder": program})).allowed
    assert kind in users_of("kubenode-system")


def test_users_without_a_name_share_one_limit() -> None:
    core = a_core(1)
    core.ask(asked_by(None, "n0"))
    assert core.judge(asked_by(None, "n1")).reason is Reason.CLIENT_LIMIT


def test_a_user_whose_acts_the_webhook_guards_is_a_client() -> None:
    holder = holder_of(KURED)
    assert holder.kind == GUARDED_USER
    assert client_of(holder) == KURED
    core = a_core(1)
    core.ask(asked_by(KURED, "n0"))
    ask = an_ask("n1").model_copy(update={"holder": holder})
    assert core.judge(ask).reason is Reason.CLIENT_LIMIT


def test_zero_lets_only_programs_of_kubenode_act() -> None:
    assert a_core(0).judge(asked_by(KURED, "n0")).reason is Reason.CLIENT_LIMIT


def test_each_value_of_a_label_has_its_own_limit() -> None:
    core = Core(policy(1, scope="Label", label=ZONE))
    core.fleet(6, {ZONE: "a"}, "a")
    core.fleet(6, {ZONE: "b"}, "b")
    core.ask(asked_by(KURED, "a0"))
    assert core.judge(asked_by(KURED, "a1")).reason is Reason.CLIENT_LIMIT
    assert core.judge(asked_by(KURED, "b1")).allowed


def test_a_permit_of_unknown_scopes_counts_in_each() -> None:
    core = Core(policy(1, scope="Label", label=ZONE))
    core.fleet(6, {ZONE: "a"}, "a")
    core.fleet(6, {ZONE: "b"}, "b")
    core.ask(asked_by(KURED, "a0"))
    next(iter(core.ledger)).scopes = None
    assert core.judge(asked_by(KURED, "b1")).reason is Reason.CLIENT_LIMIT


def test_budget_shows_the_client_with_the_most_permits() -> None:
    core = a_core(3)
    for user, node in ((KURED, "n0"), (KURED, "n1"), (OTHER, "n2")):
        assert core.ask(asked_by(user, node)).allowed
    assert core.ask(an_ask("n3")).allowed
    (budget,) = budgets(core.control, core.now)
    assert (budget.kind, budget.used, budget.limit, budget.room) == ("maxPerClient", 2, 3, 1)
    shown = view(replace(a_scene([]), control=core.control, now=core.now))
    (columns,), (row,) = shown["columns default/0"], shown["scopes default/0"]
    render = Renderer().part
    assert "Permits of one client" in render(columns, "")
    assert "<b>2</b> of 3" in render(row, "")


def test_returned_permit_calls_the_client_that_waits() -> None:
    room = a_room(1)
    permit = room.ask(asked_by(KURED, "n0")).permit
    assert room.ask(asked_by(KURED, "n1")).reason is Reason.CLIENT_LIMIT
    assert room.look() == []
    assert room.give_back(permit) == ["reboot-n1"]


def test_a_client_that_waits_holds_up_nobody() -> None:
    room = a_room(1)
    room.ask(asked_by(KURED, "n0"))
    assert room.ask(asked_by(KURED, "n1")).reason is Reason.CLIENT_LIMIT
    assert room.ask(asked_by(OTHER, "n2")).allowed
    assert room.ask(an_ask("n3")).allowed
