"""Decide which Machines of Cluster API we adopt, and how. Pure.

Only those with the label `kubenode.io/adopt: "true"` are adopted, once they have a node and
addresses. Our Machine is imported and not provisioned: Cluster API creates and deletes the host.
Source: the API of cluster.x-k8s.io, v1beta1 and v1beta2, Machine `spec` and `status`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import MachineOrigin, is_address

ADOPT = "kubenode.io/adopt"
SOURCE, SOURCE_UID = "kubenode.io/cluster-api-machine", "kubenode.io/cluster-api-uid"
"""Annotations of our Machine: `namespace/name` and UID of the Cluster API Machine."""
MOST_ADDRESSES = 16
FEW = 1
SHARE_PERCENT = 20


@dataclass(frozen=True, slots=True)
class ClusterApiPlan:
    """The changes to make.

    create: Machines to create.
    change: merge patches of our Machines.
    release: our Machines whose Cluster API Machine is gone, to be deleted.
    spared: why none is released although some are gone, "" if nothing hinders it.
    """

    create: tuple[dict[str, Any], ...] = ()
    change: tuple[tuple[Machine, dict[str, Any]], ...] = ()
    release: tuple[Machine, ...] = ()
    spared: str = ""


def step(
    theirs: Sequence[Mapping[str, Any]],
    ours: Mapping[str, Machine],
    nodes: Collection[str],
    frozen: str,
) -> ClusterApiPlan:
    """Return the plan.

    theirs: Cluster API Machines with the label.
    ours: all our Machines, by name.
    nodes: names of all Nodes.
    frozen: why nothing may be deleted now, "" if it may.
    """
    wanted = {body["metadata"]["name"]: body for body in map(adopted, theirs) if body is not None}
    create = [body for name, body in wanted.items() if name not in ours]
    change = [
        (ours[name], new)
        for name, body in wanted.items()
        if name in ours and (new := _changed(ours[name], body))
    ]
    release, spared = _released(theirs, ours, nodes, frozen)
    return ClusterApiPlan(tuple(create), tuple(change), tuple(release), spared)


def _released(
    theirs: Sequence[Mapping[str, Any]],
    ours: Mapping[str, Machine],
    nodes: Collection[str],
    frozen: str,
) -> tuple[list[Machine], str]:
    """Return the Machines to release, and why others are kept.

    Cluster API deletes the Node before its Machine: a Machine whose Node is gone, too, is released.
    Machines that are gone while their Nodes stay may be an incomplete list: few are released.
    """
    here = {item["metadata"]["uid"] for item in theirs}
    all_ = [m for m in ours.values() if SOURCE_UID in m.metadata.annotations]
    gone = [
        m
        for m in all_
        if m.metadata.annotations[SOURCE_UID] not in here and m.metadata.deletion_timestamp is None
    ]
    if frozen and gone:
        return [], frozen
    proven = [m for m in gone if nodes and m.node_name not in nodes]
    doubtful = len(gone) - len(proven)
    if doubtful <= max(FEW, len(all_) * SHARE_PERCENT // 100):
        return gone, ""
    why = f"{doubtful} of {len(all_)} adopted Machines are gone from Cluster API at once"
    return proven, f"{why}, and their Nodes are not: none of them is released"


def adopted(theirs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return our Machine for it, None while it has no node or address or is being deleted."""
    meta, spec, status = theirs["metadata"], theirs.get("spec") or {}, theirs.get("status") or {}
    node = (status.get("nodeRef") or {}).get("name") or ""
    addresses = [a.get("address", "") for a in status.get("addresses") or ()]
    usable = list(dict.fromkeys(a for a in addresses if is_address(a)))[:MOST_ADDRESSES]
    if not node or not usable or meta.get("deletionTimestamp"):
        return None
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {
            "name": node,
            "labels": {k: v for k, v in (meta.get("labels") or {}).items() if k != ADOPT},
            "annotations": {
                SOURCE: f"{meta['namespace']}/{meta['name']}",
                SOURCE_UID: meta["uid"],
            },
        },
        "spec": {
            "origin": MachineOrigin.IMPORT.value,
            "addresses": usable,
            "providerID": spec.get("providerID") or "",
            "failureDomain": spec.get("failureDomain") or "",
        },
    }


def _changed(ours: Machine, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a merge patch, {} for none. A Machine that was imported otherwise is not changed."""
    meta, spec = ours.metadata, ours.spec
    if meta.annotations.get(SOURCE_UID) != wanted["metadata"]["annotations"][SOURCE_UID]:
        return {}
    change: dict[str, Any] = {}
    labels = wanted["metadata"]["labels"]
    if any(meta.labels.get(key) != value for key, value in labels.items()):
        change["metadata"] = {"labels": labels}
    if spec.addresses != wanted["spec"]["addresses"]:
        change["spec"] = {"addresses": wanted["spec"]["addresses"]}
    return change
