"""Which pods leave a node, in which order, and how long their work was away."""

from datetime import timedelta
from typing import Any

import msgspec
from support.clock import T0
from support.remedy_builders import a_job, a_record, running

from kubenode.api.v1alpha1.ladder import MigrateStep
from kubenode.runtime.kube.objects import Pod
from remedy.job.drain import MIRROR, Protection, plan
from remedy.job.pods import notes, read_notes, waited

PROTECTION = Protection(namespaces=frozenset({"kube-system"}), own="kubenode-system")


def a_pod(name: str, namespace: str = "shop", owner: str = "ReplicaSet", **changes: Any) -> Pod:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [  # type: ignore[assignment]
            {"kind": owner, "name": "o", "uid": f"uid-{owner}", "controller": True}
        ]
    status = {"phase": changes.pop("phase", "Running"), "conditions": changes.pop("conditions", [])}
    data = {"metadata": {**metadata, **changes}, "status": status}
    return msgspec.convert(data, Pod)


def migrate(**spec: Any) -> MigrateStep:
    return MigrateStep.model_validate(spec)


def test_daemons_mirrors_and_ended_pods_stay() -> None:
    pods = [
        a_pod("daemon", owner="DaemonSet"),
        a_pod("mirror", owner="Node", annotations={MIRROR: "x"}),
        a_pod("job", phase="Succeeded"),
        a_pod("crashed", phase="Failed"),
    ]
    assert plan(pods, migrate(), PROTECTION).left == 0


def test_a_terminating_pod_is_waited_for_and_not_evicted_again() -> None:
    going = a_pod("going", deletionTimestamp=T0.isoformat())
    found = plan([going, a_pod("next")], migrate(), PROTECTION)
    assert (found.left, found.due) == (2, ("shop/next",))


def test_f18_protected_pods_go_after_the_others_and_our_own_last() -> None:
    pods = [
        a_pod("operator", "kubenode-system"),
        a_pod("dns", "kube-system"),
        a_pod("cart"),
        a_pod("agent-like", labels={"app.kubernetes.io/part-of": "kubenode"}),
    ]
    order = []
    while pods:
        due = plan(pods, migrate(), PROTECTION).due
        order.append(due)
        pods = [p for p in pods if p.metadata.key not in due]
    assert order == [
        ("shop/cart",),
        ("kube-system/dns",),
        ("kubenode-system/operator", "shop/agent-like"),
    ]


def test_policies_are_asked_in_their_order() -> None:
    policies = [
        {"namespaces": ["shop"], "selector": {"matchLabels": {"app": "db"}}, "mode": "Never"},
        {"ownerKinds": ["Job"], "mode": "WaitForCompletion"},
    ]
    pods = [
        a_pod("db", labels={"app": "db"}),
        a_pod("batch", owner="Job"),
        a_pod("web"),
    ]
    found = plan(pods, migrate(podPolicies=policies), PROTECTION)
    assert (found.left, found.due) == (2, ("shop/web",))
    assert found.waiting == "1 pods run to completion"


def ready(name: str, at: float, created: float = 0.0) -> Pod:
    when = (T0 + timedelta(seconds=at)).isoformat()
    return a_pod(
        name,
        conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": when}],
        creationTimestamp=(T0 + timedelta(seconds=created)).isoformat(),
    )


def test_unavailable_time_is_from_eviction_to_a_ready_replacement() -> None:
    gone = [a_pod(f"old-{i}", labels={"pod-template-hash": "h"}) for i in range(2)]
    moved = notes(gone, T0 + timedelta(seconds=0.5))
    record = a_record(1, "migrate", "Done", output={"moved": moved})
    (note,) = read_notes(a_job(status=running(2, record)))
    assert (note.namespace, note.selector, len(note.times)) == ("shop", "pod-template-hash=h", 2)
    now = T0 + timedelta(seconds=100)
    older = ready("older", at=-50, created=-60)
    assert waited(note, [older, ready("new", 10), ready("newer", 30)], now) == timedelta(seconds=39)
    assert waited(note, [ready("new", 10)], now) == timedelta(seconds=9.5 + 99.5)


def test_bare_pods_have_no_replacement_and_broken_notes_are_passed_over() -> None:
    assert notes([a_pod("bare", owner="")], T0) == ""
    record = a_record(1, "migrate", "Done", output={"moved": "nonsense;a,b,c,d,e"})
    assert list(read_notes(a_job(status=running(2, record)))) == []
