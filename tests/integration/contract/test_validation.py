"""Invalid objects of built-in kinds: refused with the same fields named, and nothing stored.

Many objects in one test: each is a dry run, and what fails is named.
"""

from typing import Any

import pytest
from support.contract_api import ContractApi, Obj

pytestmark = pytest.mark.integration

CONTAINER = {"name": "c", "image": "x"}
LABELS = {"metadata": {"labels": {"a": "b"}}}
TEMPLATE: Obj = {**LABELS, "spec": {"containers": [CONTAINER]}}
SELECTOR: Obj = {"matchLabels": {"a": "b"}}
ENDS: Obj = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}
GROUPS = {
    "Deployment": ("apps", "deployments"),
    "ReplicaSet": ("apps", "replicasets"),
    "DaemonSet": ("apps", "daemonsets"),
    "StatefulSet": ("apps", "statefulsets"),
    "Job": ("batch", "jobs"),
    "PodDisruptionBudget": ("policy", "poddisruptionbudgets"),
    "Lease": ("coordination.k8s.io", "leases"),
    "VolumeAttachment": ("storage.k8s.io", "volumeattachments"),
    "Role": ("rbac.authorization.k8s.io", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "rolebindings"),
    "Pod": ("", "pods"),
    "Node": ("", "nodes"),
    "ConfigMap": ("", "configmaps"),
    "Secret": ("", "secrets"),
    "Service": ("", "services"),
}
CLUSTER_WIDE = ("Node", "VolumeAttachment")


def pod(**spec: Any) -> Obj:
    return {"spec": {"containers": [CONTAINER], **spec}}


def container(**more: Any) -> Obj:
    return pod(containers=[{**CONTAINER, **more}])


def toleration(**more: Any) -> Obj:
    return pod(tolerations=[{"key": "k", **more}])


def workload(**spec: Any) -> Obj:
    return {"spec": {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE, **spec}}


def daemons(**spec: Any) -> Obj:
    return {"spec": {"selector": SELECTOR, "template": TEMPLATE, **spec}}


def budget(**spec: Any) -> Obj:
    return {"spec": {"minAvailable": 1, "selector": SELECTOR, **spec}}


def attachment(**spec: Any) -> Obj:
    source = {"persistentVolumeName": "p"}
    return {"spec": {"attacher": "x", "nodeName": "n", "source": source, **spec}}


def chosen(**term: Any) -> Obj:
    return {"matchExpressions": [{"key": "a", **term}]}


INVALID: list[tuple[str, Obj, str]] = [
    ("Pod", pod(restartPolicy="Sometimes"), "spec.restartPolicy"),
    ("Pod", pod(dnsPolicy="X"), "spec.dnsPolicy"),
    ("Pod", pod(containers=[CONTAINER, CONTAINER]), "spec.containers[1].name"),
    ("Pod", pod(nodeName="Bad_Name"), "spec.nodeName"),
    ("Pod", pod(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds"),
    ("Pod", pod(volumes=[{"name": "v", "emptyDir": {}}] * 2), "spec.volumes[1].name"),
    ("Pod", container(imagePullPolicy="X"), "spec.containers[0].imagePullPolicy"),
    (
        "Pod",
        container(ports=[{"containerPort": 0}]),
        "spec.containers[0].ports[0].containerPort",
    ),
    (
        "Pod",
        container(ports=[{"containerPort": 1, "protocol": "X"}]),
        "spec.containers[0].ports[0].protocol",
    ),
    (
        "Pod",
        container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
        "spec.containers[0].volumeMounts[0].name",
    ),
    ("Pod", toleration(operator="X"), "spec.tolerations[0].operator"),
    ("Pod", toleration(operator="Exists", value="x"), "spec.tolerations[0].operator"),
    ("Pod", toleration(operator="Exists", effect="X"), "spec.tolerations[0].effect"),
    ("ConfigMap", {"data": {"bad key": "x"}}, "data[bad key]"),
    ("ConfigMap", {"data": {"k": "x"}, "binaryData": {"k": "eA=="}}, "data[k]"),
    ("Secret", {"data": {"bad key": "eA=="}}, "data[bad key]"),
    ("Secret", {"type": "kubernetes.io/tls"}, "data[tls.crt]"),
    ("Service", {"spec": {"selector": {"a": "b"}}}, "spec.ports"),
    ("Service", {"spec": {"ports": [{"port": 70_000}]}}, "spec.ports[0].port"),
    ("Service", {"spec": {"ports": [{"port": 1}, {"port": 2}]}}, "spec.ports[1].name"),
    ("Service", {"spec": {"type": "X", "ports": [{"port": 1}]}}, "spec.type"),
    ("Deployment", workload(selector=None), "spec.selector"),
    ("Deployment", workload(selector={}), "spec.selector"),
    ("Deployment", workload(replicas=-1), "spec.replicas"),
    ("Deployment", workload(strategy={"type": "X"}), "spec.strategy"),
    (
        "Deployment",
        workload(selector={"matchLabels": {"x": "y"}}),
        "spec.template.metadata.labels",
    ),
    (
        "Deployment",
        workload(template={**LABELS, "spec": {}}),
        "spec.template.spec.containers",
    ),
    (
        "Deployment",
        workload(template={**LABELS, **ENDS}),
        "spec.template.spec.restartPolicy",
    ),
    ("ReplicaSet", workload(template=None), "spec.template.spec.containers"),
    ("DaemonSet", daemons(selector=None), "spec.template.metadata.labels"),
    ("StatefulSet", workload(selector=None), "spec.selector"),
    ("Job", {"spec": {"template": TEMPLATE}}, "spec.template.spec.restartPolicy"),
    ("Job", {"spec": {"parallelism": -1, "template": ENDS}}, "spec.parallelism"),
    ("PodDisruptionBudget", budget(minAvailable=-1), "spec.minAvailable"),
    ("PodDisruptionBudget", budget(minAvailable="150%"), "spec.minAvailable"),
    ("PodDisruptionBudget", budget(minAvailable="5"), "spec.minAvailable"),
    ("PodDisruptionBudget", budget(maxUnavailable=1), "spec"),
    (
        "PodDisruptionBudget",
        budget(selector=chosen(operator="X")),
        "spec.selector.matchExpressions[0].operator",
    ),
    (
        "PodDisruptionBudget",
        budget(selector=chosen(operator="In")),
        "spec.selector.matchExpressions[0].values",
    ),
    (
        "PodDisruptionBudget",
        budget(unhealthyPodEvictionPolicy="X"),
        "spec.unhealthyPodEvictionPolicy",
    ),
    ("VolumeAttachment", attachment(attacher=""), "spec.attacher"),
    ("VolumeAttachment", attachment(nodeName=""), "spec.nodeName"),
    ("VolumeAttachment", attachment(source={}), "spec.source"),
    ("Lease", {"spec": {"leaseDurationSeconds": 0}}, "spec.leaseDurationSeconds"),
    ("Lease", {"spec": {"leaseTransitions": -1}}, "spec.leaseTransitions"),
    ("Node", {"spec": {"podCIDR": "x"}}, "spec.podCIDRs[0]"),
    ("Role", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, "rules[0].verbs"),
    ("RoleBinding", {"roleRef": {**ROLE, "name": ""}}, "roleRef.name"),
    (
        "RoleBinding",
        {"roleRef": ROLE, "subjects": [{"kind": "X", "name": "x"}]},
        "subjects[0].kind",
    ),
    ("ConfigMap", {"owners": [{**OWNER, "uid": ""}]}, "metadata.ownerReferences[0].uid"),
    ("ConfigMap", {"owners": [{**OWNER, "kind": ""}]}, "metadata.ownerReferences[0].kind"),
    (
        "ConfigMap",
        {"owners": [{**OWNER, "uid": uid, "controller": True} for uid in "ab"]},
        "metadata.ownerReferences",
    ),
    ("ConfigMap", {"finalizers": ["plain"]}, "metadata.finalizers[0]"),
    ("ConfigMap", {"annotations": {"a": "x" * 262_145}}, "metadata.annotations"),
]
VALID: list[tuple[str, Obj]] = [
    ("Pod", toleration(operator="Exists", effect="NoExecute")),
    ("Pod", pod(tolerations=[{"operator": "Exists"}])),
    ("ConfigMap", {"data": {"a.b_c-D": ""}}),
    ("Service", {"spec": {"clusterIP": "None"}}),
    ("Deployment", workload(strategy={"type": "Recreate"})),
    ("DaemonSet", daemons()),
    ("StatefulSet", workload()),
    ("Job", {"spec": {"suspend": True, "template": ENDS}}),
    ("PodDisruptionBudget", budget(minAvailable="50%")),
    ("VolumeAttachment", attachment()),
    ("RoleBinding", {"roleRef": ROLE}),
    ("ConfigMap", {"owners": [OWNER], "finalizers": ["a.b/c"]}),
]


def a_body(kind: str, content: Obj) -> tuple[str, Obj]:
    """(path of the collection below its group, the object)"""
    group, plural = GROUPS[kind]
    metadata: Obj = {"name": "v"}
    content = {key: value for key, value in content.items() if key not in METADATA}
    body = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": metadata}
    return plural, {**body, **content}


METADATA = {
    "owners": "ownerReferences",
    "finalizers": "finalizers",
    "annotations": "annotations",
}


async def dry_run(api: ContractApi, kind: str, content: Obj) -> tuple[int, set[str]]:
    """(status, fields named)"""
    plural, body = a_body(kind, content)
    for name, field in METADATA.items():
        if name in content:
            body["metadata"][field] = content[name]
    group = GROUPS[kind][0]
    path = api.path(plural, group)
    if kind in CLUSTER_WIDE:
        path = path.replace(f"/namespaces/{api.ns}", "")
    reply = await api.post(f"{path}?dryRun=All", body)
    causes = (reply.body.get("details") or {}).get("causes") or ()
    return reply.code, {cause.get("field", "") for cause in causes}


async def test_invalid_objects_are_refused_with_the_field_that_is_wrong(api: ContractApi) -> None:
    otherwise = []
    for kind, content, field in INVALID:
        code, named = await dry_run(api, kind, content)
        if code != 422 or field not in named:
            otherwise.append((kind, field, code, named))
    assert not otherwise


async def test_valid_objects_are_taken(api: ContractApi) -> None:
    found = [(kind, content, await dry_run(api, kind, content)) for kind, content in VALID]
    assert not [one for one in found if one[2][0] != 201]


async def test_what_a_kind_keeps_for_its_life_cannot_be_changed(api: ContractApi) -> None:
    path = api.path("statefulsets", "apps")
    await api.made(path, a_body("StatefulSet", workload())[1])
    template = {"metadata": {"labels": {"a": "b", "x": "y"}}}
    selector = {"matchLabels": {"x": "y"}}
    change = {"spec": {"selector": selector, "template": template}}
    assert (await api.patch(f"{path}/v", change)).code == 422
    path = api.path("rolebindings", "rbac.authorization.k8s.io")
    await api.made(path, a_body("RoleBinding", {"roleRef": ROLE})[1])
    assert (await api.patch(f"{path}/v", {"roleRef": {"name": "other"}})).code == 422
