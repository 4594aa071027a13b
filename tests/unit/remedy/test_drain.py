"""Which pods leave a node, in which order, and how long their work was away."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
from support.clock import T0
from support.remedy_builders import a_job, a_record, running

from kubenode.api.v1alpha1.steps import MigrateStep
from kubenode.runtime.drain.gangs import CheckpointAnswer, GangState
from kubenode.runtime.drain.observation import Pods
from kubenode.runtime.drain.plan import DrainState, plan
from kubenode.runtime.drain.policy import MIRROR, Protection
from kubenode.runtime.kube.objects import Pod
from remedy.job.migration.absence import add, note, read_notes, waited

PROTECTION = Protection(namespaces=frozenset({"kube-system"}), own="kubenode-system")
READY = [{"type": "Ready", "status": "True"}]


def a_pod(name: str, namespace: str = "shop", owner: str = "ReplicaSet", **changes: Any) -> Pod:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [  # type: ignore[assignment]
            {"kind": owner, "name": "o", "uid": f"uid-{owner}", "controller": True}
        ]
    spec = {"volumes": changes.pop("volumes", [])}
    status = {
        "phase": changes.pop("phase", "Running"),
        "conditions": changes.pop("conditions", READY),
    }
    data = {"metadata": {**metadata, **changes}, "spec": spec, "status": status}
    return msgspec.convert(data, Pod)


def migrate(**spec: Any) -> MigrateStep:
    return MigrateStep.model_validate(spec)


def planned(pods: Iterable[Pod], step: MigrateStep | None = None, **known: Any) -> Pods:
    given = {"now": T0, "began": T0, **known}
    return plan(pods, step or migrate(), PROTECTION, DrainState(**given))


def order(pods: list[Pod], step: MigrateStep | None = None) -> list[tuple[str, ...]]:
    """Who is asked to leave, round by round, if everybody goes at once."""
    rounds = []
    while due := planned(pods, step).due:
        rounds.append(due)
        pods = [p for p in pods if p.metadata.key not in due]
    return rounds


# -- who stays -------------------------------------------------------------------------------------


def test_daemons_mirrors_and_ended_pods_stay() -> None:
    pods = [
        a_pod("daemon", owner="DaemonSet"),
        a_pod("mirror", owner="Node", annotations={MIRROR: "x"}),
        a_pod("job", phase="Succeeded"),
        a_pod("crashed", phase="Failed"),
    ]
    assert planned(pods).remaining == 0


def test_pods_that_nobody_would_make_anew_stay_and_are_named() -> None:
    found = planned([a_pod("bare", owner=""), a_pod("web")])
    assert (found.remaining, found.due, found.stay) == (1, ("shop/web",), ("shop/bare",))


def test_a_policy_can_say_otherwise_of_pods_without_a_controller() -> None:
    step = migrate(podPolicies=[{"ownerKinds": ["None"], "mode": "Evict"}])
    assert order([a_pod("bare", owner=""), a_pod("web")], step) == [("shop/web",), ("shop/bare",)]


# -- order -----------------------------------------------------------------------------------------


def test_what_keeps_no_state_is_asked_first() -> None:
    pods = [a_pod("db-0", owner="StatefulSet"), a_pod("own", owner="Cluster"), a_pod("web")]
    assert order(pods) == [("shop/web",), ("shop/own", "shop/db-0")]


def test_f18_protected_pods_go_after_the_others_and_our_own_last() -> None:
    pods = [
        a_pod("operator", "kubenode-system"),
        a_pod("dns", "kube-system"),
        a_pod("cart"),
    ]
    assert order(pods) == [
        ("shop/cart",),
        ("kube-system/dns",),
        ("kubenode-system/operator",),
    ]


def test_a_label_of_kubenode_gives_a_pod_of_another_namespace_no_protection() -> None:
    label = {"app.kubernetes.io/part-of": "kubenode"}
    pods = [a_pod("cart", labels=label), a_pod("dns", "kube-system", labels=label)]
    assert order(pods) == [("shop/cart",), ("kube-system/dns",)]
    step = migrate(podPolicies=[{"mode": "Never"}])
    assert planned([pods[0]], step).stay == ("shop/cart",)


def test_f18_nothing_protected_goes_while_ordinary_pods_still_end() -> None:
    going = a_pod("cart", deletionTimestamp=T0.isoformat())
    found = planned([going, a_pod("dns", "kube-system")])
    assert (found.remaining, found.due) == (2, ())


def test_f18_a_policy_for_all_pods_does_not_reach_protected_namespaces() -> None:
    step = migrate(podPolicies=[{"mode": "Never"}])
    found = planned([a_pod("cart"), a_pod("dns", "kube-system")], step)
    assert (found.due, found.stay) == (("kube-system/dns",), ("shop/cart",))
    step = migrate(podPolicies=[{"namespaces": ["kube-system"], "mode": "Never"}])
    assert planned([a_pod("dns", "kube-system")], step).stay == ("kube-system/dns",)


def test_a_refused_pod_holds_up_no_other() -> None:
    pods = [a_pod("refused"), a_pod("web"), a_pod("db-0", owner="StatefulSet")]
    asked = {"uid-refused": T0 + timedelta(seconds=5)}
    assert planned(pods, pending=asked).due == ("shop/web",)
    found = planned([pods[0], pods[2]], pending=asked)
    assert found.due == ("shop/db-0",), "nor those of the next rank"
    assert found.at == T0 + timedelta(seconds=5)


def test_a_terminating_pod_is_waited_for_and_not_evicted_again() -> None:
    going = a_pod("going", deletionTimestamp=T0.isoformat())
    found = planned([going, a_pod("next")])
    assert (found.remaining, found.due) == (2, ("shop/next",))
    assert [(g.pod, g.ends) for g in found.going] == [("shop/going", T0)]


def test_while_the_api_server_asks_for_patience_nobody_is_due() -> None:
    until = T0 + timedelta(seconds=3)
    found = planned([a_pod("web")], calm=until)
    assert (found.due, found.at) == ((), until)
    assert found.waiting == "the API server asks for patience"


# -- policies --------------------------------------------------------------------------------------


def test_policies_are_asked_in_their_order() -> None:
    policies = [
        {"namespaces": ["shop"], "selector": {"matchLabels": {"app": "db"}}, "mode": "Never"},
        {"ownerKinds": ["Job"], "mode": "WaitForCompletion"},
    ]
    pods = [a_pod("db", labels={"app": "db"}), a_pod("batch", owner="Job"), a_pod("web")]
    found = planned(pods, migrate(podPolicies=policies))
    assert (found.remaining, found.due, found.patient) == (2, ("shop/web",), 1)
    assert found.waiting == "pods run to completion"


def test_pods_are_deleted_after_their_time_and_not_before() -> None:
    step = migrate(podPolicies=[{"ownerKinds": ["Job"], "mode": "DeleteAfter", "after": "5m"}])
    pods, until = [a_pod("batch", owner="Job")], T0 + timedelta(minutes=5)
    early = planned(pods, step)
    assert (early.remaining, early.delete, early.due, early.at) == (1, (), (), until)
    late = planned(pods, step, now=until)
    assert (late.remaining, late.delete) == (1, ("shop/batch",))
    assert planned(pods, step, now=until, pending={"uid-batch": until}).delete == ()


def test_data_on_the_node_can_have_a_policy() -> None:
    keeps = {"volumes": ["EmptyDir", "HostPath"], "mode": "Never"}
    pods = [
        a_pod("cache", volumes=[{"name": "v", "emptyDir": {}}]),
        a_pod("files", volumes=[{"name": "v", "hostPath": {"path": "/data"}}]),
        a_pod("web"),
    ]
    assert planned(pods).due == ("shop/cache", "shop/files", "shop/web"), "by default they move"
    found = planned(pods, migrate(podPolicies=[keeps]))
    assert (found.due, found.stay) == (("shop/web",), ("shop/cache", "shop/files"))


def test_a_volume_of_this_node_alone_can_have_a_policy() -> None:
    step = migrate(podPolicies=[{"volumes": ["Local"], "mode": "WaitForCompletion"}])
    found = planned([a_pod("db"), a_pod("web")], step, local=frozenset({"shop/db"}))
    assert (found.due, found.patient, found.local) == (("shop/web",), 1, ("shop/db",))


# -- StatefulSets ----------------------------------------------------------------------------------


def test_pods_of_a_stateful_set_leave_one_by_one_from_the_highest() -> None:
    pods = [a_pod(f"db-{i}", owner="StatefulSet") for i in (2, 9, 10)]
    assert order(pods) == [("shop/db-10",), ("shop/db-9",), ("shop/db-2",)]


def test_the_next_of_a_stateful_set_waits_for_the_one_before() -> None:
    why = "pods of StatefulSet shop/db wait until all of it is ready"
    found = planned([a_pod("db-0", owner="StatefulSet")], sets={"uid-StatefulSet": why})
    assert (found.remaining, found.due, found.waiting) == (1, (), why)


def test_what_is_not_ready_leaves_first() -> None:
    down = a_pod("db-0", owner="StatefulSet", conditions=[{"type": "Ready", "status": "False"}])
    assert planned([a_pod("db-1", owner="StatefulSet"), down]).due == ("shop/db-0",)


def test_who_says_evict_of_a_stateful_set_leaves_it_to_its_budget() -> None:
    step = migrate(podPolicies=[{"ownerKinds": ["StatefulSet"], "mode": "Evict"}])
    pods = [a_pod(f"db-{i}", owner="StatefulSet") for i in range(2)]
    assert planned(pods, step, sets={"uid-StatefulSet": "wait"}).due == ("shop/db-0", "shop/db-1")


# -- gangs -----------------------------------------------------------------------------------------

GANG: dict[str, Any] = {
    "selector": {"matchLabels": {"app": "train"}},
    "mode": "Gang",
    "gang": {"groupBy": "job", "checkpoint": {"webhook": "save", "timeout": "5m"}},
}


def ranks(gang: str = "a") -> list[Pod]:
    return [a_pod(f"{gang}-{i}", labels={"app": "train", "job": gang}) for i in range(3)]


def test_a_gang_leaves_together_once_its_work_is_saved() -> None:
    step = migrate(podPolicies=[GANG])
    first = planned(ranks(), step)
    assert (first.due, first.checkpoint, first.patient) == ((), ("shop/a",), 3)
    asked = {"shop/a": GangState(CheckpointAnswer.REQUESTED, T0)}
    assert planned(ranks(), step, gangs=asked).checkpoint == (), "it was asked a moment ago"
    again = planned(ranks(), step, gangs=asked, asking=frozenset({"shop/a"}))
    assert again.checkpoint == ("shop/a",)
    saved = planned(ranks(), step, gangs={"shop/a": GangState(CheckpointAnswer.SAVED, T0)})
    assert saved.due == ("shop/a-0", "shop/a-1", "shop/a-2")


def test_a_checkpoint_that_takes_too_long_holds_nothing_for_ever() -> None:
    asked = {"shop/a": GangState(CheckpointAnswer.REQUESTED, T0)}
    step, now = migrate(podPolicies=[GANG]), T0 + timedelta(minutes=5)
    assert planned(ranks(), step, gangs=asked, now=now).overdue == ("shop/a",)
    assert (
        len(planned(ranks(), step, gangs={"shop/a": GangState(CheckpointAnswer.LATE, now)}).due)
        == 3
    )


def test_a_gang_can_be_left_to_end() -> None:
    policy = {**GANG, "gang": {"groupBy": "job", "afterGangEnds": True}}
    found = planned(ranks(), migrate(podPolicies=[policy]))
    assert (found.remaining, found.patient, found.due) == (3, 3, ())
    assert found.waiting == "pods run until their gang has ended"


def test_pods_without_the_label_are_in_no_gang() -> None:
    found = planned([a_pod("lone", labels={"app": "train"})], migrate(podPolicies=[GANG]))
    assert found.due == ("shop/lone",)


# -- surge -----------------------------------------------------------------------------------------


def test_with_surge_as_many_leave_as_replacements_are_ready() -> None:
    pods = [a_pod(f"web-{i}") for i in range(3)]
    none = planned(pods, surging={"uid-ReplicaSet": 0})
    assert (none.due, none.remaining) == ((), 3)
    assert none.waiting == "pods wait for replacements that are started first"
    assert planned(pods, surging={"uid-ReplicaSet": 2}).due == ("shop/web-0", "shop/web-1")


# -- how long the work was away --------------------------------------------------------------------


def ready(name: str, at: float, created: float = 0.0) -> Pod:
    when = (T0 + timedelta(seconds=at)).isoformat()
    return a_pod(
        name,
        conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": when}],
        creationTimestamp=(T0 + timedelta(seconds=created)).isoformat(),
    )


def test_unavailable_time_is_from_eviction_to_a_ready_replacement() -> None:
    gone = [a_pod(f"old-{i}", labels={"pod-template-hash": "h"}) for i in range(2)]
    moved = note(gone, T0 + timedelta(seconds=0.5))
    record = a_record(1, "migrate", "Done", output=add({}, moved))
    (found,) = read_notes(a_job(status=running(2, record)))
    assert (found.namespace, found.selector, len(found.times)) == ("shop", "pod-template-hash=h", 2)
    now = T0 + timedelta(seconds=100)
    older = ready("older", at=-50, created=-60)
    three = [older, ready("new", 10), ready("newer", 30)]
    assert waited(found, three, now) == timedelta(seconds=39)
    assert waited(found, [ready("new", 10)], now) == timedelta(seconds=9.5 + 99.5)


def test_work_of_a_pod_that_was_down_already_is_away_since_then() -> None:
    down = {"type": "Ready", "status": "False", "lastTransitionTime": T0.isoformat()}
    pod = a_pod("old", labels={"pod-template-hash": "h"}, conditions=[down])
    record = a_record(1, "migrate", output=add({}, note([pod], T0 + timedelta(minutes=1))))
    (found,) = read_notes(a_job(status=running(1, record)))
    new = ready("new", at=90, created=60)
    assert waited(found, [new], T0 + timedelta(minutes=9)) == timedelta(seconds=90)


def test_with_surge_the_work_is_never_away() -> None:
    pod = a_pod("old", labels={"pod-template-hash": "h"})
    moved = note([pod], T0 + timedelta(seconds=30), {"uid-ReplicaSet": T0})
    record = a_record(1, "migrate", output=add({}, moved))
    (found,) = read_notes(a_job(status=running(1, record)))
    assert waited(found, [ready("new", at=20, created=1)], T0 + timedelta(hours=1)) == timedelta()


def test_notes_stay_within_their_bounds_and_say_what_they_left_out() -> None:
    output: dict[str, str] = {"evicted": "3"}
    for i in range(300):
        pod = a_pod(f"p{i}", f"ns-{i}", labels={"pod-template-hash": "h" * 30})
        output = add(output, note([pod], T0))
    assert len(output) <= 12 and all(len(text) <= 1024 for text in output.values())
    record = a_record(1, "migrate", output=output)
    kept = list(read_notes(a_job(status=running(1, record))))
    assert len(kept) + int(output["untold"]) == 300 and len(kept) > 50


def test_many_evictions_of_one_controller_are_one_note_with_the_same_sum() -> None:
    output: dict[str, str] = {}
    for i in range(40):
        pod = a_pod(f"p{i}", labels={"pod-template-hash": "h"})
        output = add(output, note([pod], T0 + timedelta(seconds=i)))
    (found,) = read_notes(a_job(status=running(1, a_record(1, "migrate", output=output))))
    late = T0 + timedelta(seconds=100)
    wanted = sum(100 - i for i in range(40))
    assert abs(waited(found, [], late).total_seconds() - wanted) < 1
    assert len(output["moved"]) < 200


def test_bare_pods_have_no_replacement_and_broken_notes_are_passed_over() -> None:
    assert note([a_pod("bare", owner="")], T0) == ""
    record = a_record(1, "migrate", "Done", output={"moved": "nonsense;a,b,c,d,e;a,b,c,1,x*y"})
    assert list(read_notes(a_job(status=running(2, record)))) == []
