"""A fleet with something of everything that the dashboard shows, made of plain objects.

`fill` writes it to an API server; the builders make single objects as operators write them.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import default_policy
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube

JOBS = paths.custom("remedyoperationjobs")
POLICIES = paths.custom("defenderpolicies")
RULES = paths.custom("noderemediers")
PERMITS = paths.custom("permits")
ROLLOUTS = paths.custom("machinecomponentsets")
MACHINES = paths.custom("machines")
MACHINE_SETS = paths.custom("machinesets")
OLD_REVISION, NEW_REVISION = "1-0123456789", "1-abcdef0123"
Object = dict[str, Any]
PER_RACK = 20
ZONES = ("eu-1a", "eu-1b", "eu-1c")
INFO = (
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
    "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID",
)  # fmt: skip
LADDER: list[Object] = [
    {
        "name": "restart",
        "steps": [{"agent": {"action": "RestartUnit", "unit": "containerd.service"}}],
    },
    {"name": "reboot", "steps": [{"cordon": {}}, {"migrate": {}}, {"reboot": {}}]},
]


def now() -> datetime:
    return SystemClock().now()


def stamp(ago: float = 0.0) -> str:
    """An instant `ago` seconds ago, as Kubernetes writes it."""
    at = (now() - timedelta(seconds=ago)).astimezone(UTC).replace(microsecond=0)
    return format_time(at).replace(".000Z", "Z")


def a_node(
    name: str,
    zone: str = ZONES[0],
    rack: str = "r01",
    *,
    ready: str = "True",
    reason: str = "KubeletReady",
    labels: Object | None = None,
    annotations: Object | None = None,
    unschedulable: bool = False,
    message: str = "kubelet is posting ready status",
    ago: float = 900.0,
) -> Object:
    places = {"topology.kubernetes.io/zone": zone, "kubenode.io/rack": rack}
    given = {key: value for key, value in places.items() if value}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**given, "kubenode.io/pool": "workers", **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {"unschedulable": True} if unschedulable else {},
        "status": {
            "nodeInfo": dict.fromkeys(INFO, "x") | {"kubeletVersion": "v1.36.3"},
            "conditions": [
                condition("Ready", ready, reason, message, ago),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "", 86400.0),
            ],
        },
    }


def condition(type_: str, status: str, reason: str, message: str, ago: float) -> Object:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": stamp(),
        "lastTransitionTime": stamp(ago),
    }


def a_job(
    node: str,
    phase: str,
    *,
    name: str = "",
    rule: str = "kernel-deadlock",
    hold: tuple[str, str, str] | None = None,
    mode: str = "Enforce",
    explanation: str = "condition KernelDeadlock True for 2m",
    note: str = "",
    **status: Any,
) -> Object:
    """`hold` is reason, scope, message."""
    found: Object = {
        "phase": phase,
        "timeline": {"faultSeen": stamp(300), "jobCreated": stamp(240)},
    }
    if hold is not None:
        found["hold"] = dict(zip(("reason", "scope", "message"), hold, strict=True))
        found["hold"]["lookAgainAt"] = stamp(-60)
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {
            "name": name or f"{node}-0a1b2c3d4e",
            "labels": {"kubenode.io/remedier": rule},
        },
        "spec": {
            "nodeName": node,
            "agent": node,
            "nodeUID": "",
            "remedier": {"name": rule, "uid": "u", "generation": 1},
            "trigger": {
                "firstTrue": stamp(300),
                "facts": [{"atom": explanation, "value": True}],
                "explanation": explanation,
            },
            "mode": mode,
            "severity": "Critical",
            "faultClass": "kernel_deadlock",
            "ladder": LADDER,
            "approval": {"required": phase == "AwaitingApproval", "expiresAfter": "24h"},
        },
        "status": {**found, "message": note, **status},
    }


def a_rule(name: str, mode: str = "Enforce", *, phase: str = "Active", **status: Any) -> Object:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {"name": name},
        "spec": {
            "mode": mode,
            "severity": "Critical",
            "faultClass": name.replace("-", "_"),
            "nodes": {"all": True},
            "when": {"condition": {"type": "KernelDeadlock", "status": "True", "for": "30s"}},
            "ladder": LADDER,
        },
        "status": {"phase": phase, "matching": 0, **status},
    }


async def put(kube: Kube, collection: str, body: Object) -> Object:
    """Create an object of ours, and its status as its controller would write it."""
    made = await kube.create(collection, {k: v for k, v in body.items() if k != "status"})
    if status := body.get("status"):
        path = f"{collection}/{made['metadata']['name']}/status"
        made = await kube.patch(path, {"status": status})
    return made


def places(nodes: int) -> Iterable[tuple[str, str, str]]:
    """(name, zone, rack) for a fleet of three zones with racks of PER_RACK."""
    for index in range(nodes):
        zone = ZONES[index % 3]
        yield f"n{index:05d}", zone, f"{zone[-2:]}-r{index // 3 // PER_RACK + 1:02d}"


FAULTY = {"n00004": "NotReady", "n00005": "NodeStatusUnknown", "n00121": "NotReady"}


async def fill(kube: Kube, nodes: int = 240) -> None:
    """A policy, rules, `nodes` nodes that are well, and a job in most of the states there are."""
    await put(kube, POLICIES, default_policy().to_dict())
    waiting = asyncio.Semaphore(32)

    async def one(name: str, zone: str, rack: str) -> None:
        marks = {"kubenode.io/cordoned-by": "n00010-0a1b2c3d4e"} if name == "n00010" else {}
        cordon = name in ("n00010", "n00100")
        body = a_node(name, zone, rack, unschedulable=cordon, annotations=marks)
        async with waiting:
            await kube.create(paths.nodes(), body)

    async with asyncio.TaskGroup() as tasks:
        for place in places(nodes):
            tasks.create_task(one(*place))
    for body in some_jobs():
        await put(kube, JOBS, body)
    for body in some_rules():
        await put(kube, RULES, body)
    for body in some_rollouts():
        await put(kube, ROLLOUTS, body)
    for body in some_machines():
        await put(kube, MACHINES, body)
    uids = {}
    for body in some_machine_sets():
        made = await put(kube, MACHINE_SETS, body)
        uids[made["metadata"]["name"]] = made["metadata"]["uid"]
    for body in some_members(uids["workers"]):
        await put(kube, MACHINES, body)


async def spoil(kube: Kube, names: Mapping[str, str] = FAULTY) -> None:
    """Nodes that were ready are so no more: their names and the reasons."""
    for name, reason in names.items():
        status = "Unknown" if reason == "NodeStatusUnknown" else "False"
        message = "Kubelet stopped posting node status."
        found = [condition("Ready", status, reason, message, 0.0)]
        patch = {"status": {"conditions": found}}
        await kube.patch(paths.node(name, "status"), patch, STRATEGIC_PATCH)


def a_rollout(name: str, component: str, phase: str, **status: Any) -> Object:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineComponentSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"pool": "online"}}, "component": component},
        "status": {"phase": phase, **status},
    }


def some_rollouts() -> list[Object]:
    counts = {"machines": 240, "updated": 16, "healthy": 238, "unavailable": 2, "held": 1}
    why = {
        "type": "Paused", "status": "True", "reason": "AutoPaused",
        "message": "n00017 failed in batch 3: containerd.service is failed",
        "lastTransitionTime": stamp(60),
    }  # fmt: skip
    batch = {"index": 3, "size": 10, "startedAt": stamp(300), "failed": ["n00017"]}
    revisions = {
        "currentRevision": OLD_REVISION, "updateRevision": NEW_REVISION,
        "revisions": [
            {"name": OLD_REVISION, "number": 1, "component": "containerd-2.1.3"},
            {"name": NEW_REVISION, "number": 2, "component": "containerd-2.1.4"},
        ],
    }  # fmt: skip
    old = {"version": "2.1.3", "ready": 224}
    new = {"version": "2.1.4", "ready": 15, "unready": 1}
    baking = {"index": 2, "size": 5, "startedAt": stamp(200), "bakeUntil": stamp(-300)}
    return [
        a_rollout("chrony", "chrony-4.6", "Completed", counts={"machines": 240, "updated": 240}),
        a_rollout(
            "containerd", "containerd-2.1.4", "Paused",
            counts=counts, versions=[old, new], batch=batch, conditions=[why], **revisions,
        ),
        a_rollout("runc", "runc-1.3", "Baking", counts=counts, batch=baking),
    ]  # fmt: skip


def a_machine(
    name: str,
    revision: str = NEW_REVISION,
    *,
    batch: int = 0,
    state: str = "Healthy",
    version: str = "2.1.4",
    ready: bool = True,
    message: str = "",
    set_: str = "containerd",
) -> Object:
    """A Machine to which a set has assigned containerd. revision "": nothing is assigned."""
    digest = {"revision": revision, "configHash": revision}
    assigned = {"name": "containerd", "component": f"containerd-{version}", "set": set_,
                "attempt": 1, "batch": batch}  # fmt: skip
    installed = {"name": "containerd", "version": version, "attempt": 1, "state": state,
                 "message": message}  # fmt: skip
    well = "True" if ready else "False"
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": name, "labels": {"pool": "online"}},
        "spec": {
            "origin": "Import", "mode": "Manage", "nodeName": name,
            "components": [assigned | digest] if revision else [],
        },
        "status": {
            "components": [installed | digest] if revision else [],
            "conditions": [condition("NodeReady", well, "KubeletReady", "", 60)],
        },
    }  # fmt: skip


def some_machines() -> list[Object]:
    """Machines of the set containerd: a failed batch, one machine of it still at work."""
    names = [f"n{index:05d}" for index in range(24)]
    done = [a_machine(name, batch=1 if name == names[0] else 2) for name in names[:6]]
    changing = [a_machine(name, batch=3, state="Applying") for name in names[6:8]]
    waiting = [a_machine(name, OLD_REVISION, version="2.1.3") for name in names[8:17]]
    broken = a_machine("n00017", batch=3, state="Failed", message="containerd.service is failed")
    return [*done, *changing, *waiting, broken, a_machine("n00018", "")]


def a_machine_set(name: str, replicas: int = 3, **status: Any) -> Object:
    labels = {"set": name}
    counts = {"replicas": replicas, "ready": replicas, "available": replicas,
              "upToDate": replicas}  # fmt: skip
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"classRef": "large"}},
            "autoscaling": {"minReplicas": 1, "maxReplicas": 9},
        },
        "status": counts | status,
    }  # fmt: skip


def a_member(
    name: str,
    set_: str,
    phase: str = "Running",
    uid: str = "u",
    **unmet: tuple[str, str],
) -> Object:
    """A Machine of a MachineSet. unmet: reason and message of conditions that are False."""
    owner = {"apiVersion": "kubenode.io/v1alpha1", "kind": "MachineSet", "name": set_,
             "uid": uid, "controller": True}  # fmt: skip
    said = [condition(type_, "False", *why, 60) for type_, why in unmet.items()]
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": name, "labels": {"set": set_}, "ownerReferences": [owner]},
        "spec": {"origin": "Provision", "mode": "Manage", "classRef": "large"},
        "status": {"phase": phase, "conditions": said},
    }


QUOTA = condition("Scaled", "False", "QuotaExceeded", "2 of 3 machines: quota of large", 60)


def some_machine_sets() -> list[Object]:
    """One that waits for quota, and one that has what it asks for."""
    waits = a_machine_set("workers", ready=1, available=1, replicas=3, conditions=[QUOTA])
    return [waits, a_machine_set("control", 1)]


def some_members(uid: str = "u") -> list[Object]:
    """Machines of the set workers."""
    failed = ("CreateFailed", "no capacity")
    return [
        a_member("workers-1", "workers", uid=uid),
        a_member("workers-2", "workers", "Failed", uid, InstanceReady=failed),
    ]


def some_rules() -> list[Object]:
    counts = {"running": 1, "succeeded": 41, "failed": 2, "needsHuman": 1, "relapsed": 1}
    broken = [
        {
            "type": "Ready", "status": "False", "reason": "Invalid",
            "message": "spec.when: no such condition", "lastTransitionTime": stamp(60),
        }
    ]  # fmt: skip
    return [
        a_rule("kernel-deadlock", matching=3, jobs=counts, lastMatchTime=stamp(90)),
        a_rule("disk-pressure", "Approve", matching=1, jobs={"succeeded": 7}),
        a_rule("ntp-problem", "DryRun"),
        a_rule("gpu-lost", phase="Rejected", conditions=broken),
    ]


def a_collect_step(excerpt: str = "2 failed units: containerd, kubelet\nI/O error") -> Object:
    place = "/var/lib/kubenode-agent/diagnostics/x.tar.gz on this host; characters: dmesg 70"
    return {
        "rung": 0, "index": 0, "name": "collect", "by": "Agent", "state": "Done",
        "startedAt": stamp(110), "finishedAt": stamp(100), "attempts": 1,
        "output": {"code": "0", "text": place, "excerpt": excerpt},
    }  # fmt: skip


def some_jobs() -> list[Object]:
    rack = "kubenode.io/rack=1b-r01"
    full = ("ConcurrencyLimit", rack, f"{rack}: 1 of 1 permits are held")
    pdb = ("PDBBlocked", "", "PodDisruptionBudget shop/cart allows 0 disruptions; pod shop/cart-0")
    return [
        a_job("n00004", "AwaitingPermit", hold=full),
        a_job("n00007", "AwaitingPermit", hold=full),
        a_job("n00010", "Running", rung=1, steps=[
            {"rung": 1, "index": 0, "name": "cordon", "by": "Operator", "state": "Done",
             "startedAt": stamp(120), "finishedAt": stamp(119), "attempts": 1},
            {"rung": 1, "index": 1, "name": "migrate", "by": "Operator", "state": "Running",
             "startedAt": stamp(118), "attempts": 1, "message": "3 of 11 pods left"},
        ]),
        a_job("n00033", "Running", rung=1, hold=pdb),
        a_job("n00062", "AwaitingApproval", rule="disk-pressure", mode="Approve",
              explanation="condition DiskPressure True for 10m"),
        a_job("n00093", "NeedsHuman", note="rungs are spent: the fault is still there"),
        a_job("n00120", "Verifying", rung=0),
        a_job("n00050", "Succeeded", name="n00050-5d5d5d5d5d", steps=[a_collect_step()]),
    ]  # fmt: skip
