"""Labels and taints of a Machine on its Node, computed as one patch. Pure.

Annotations of the Node, written in the same patch, record what we wrote with its value. Only that
is changed or removed later. A key with another value from somebody else is a conflict and stays. A
key of ours that somebody changed is corrected and reported, so that drift fights are detected.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubenode.api.v1alpha1.machine import MachineNode, Propagation
from kubenode.runtime.components.render import UNINITIALIZED
from kubenode.runtime.kube.objects import Node, Taint
from machine.names import MACHINE

LABELS_FROM_MACHINE = "kubenode.io/labels-from-machine"
"""Annotation `key=value,...`: labels of the Node that we set."""
TAINTS_FROM_MACHINE = "kubenode.io/taints-from-machine"
"""Annotation `key=value:effect,...`: taints of the Node that we set."""
NO_SCHEDULE = "NoSchedule"

Kind = tuple[str, str]
"""Key and effect, by which a taint is unique on a node."""


@dataclass(frozen=True, slots=True)
class NodePatch:
    """The planned change of a Node.

    body: merge patch of the Node without its version, empty for none.
    conflicts: one sentence for each key that somebody else has set to another value.
    overwritten: our keys that somebody has changed since.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()


def plan(
    node: Node, machine: str, want: MachineNode, *, initialized: bool, starts_empty: bool
) -> NodePatch:
    """Return the change that gives the Node the labels and taints of its Machine.

    starts_empty: whether no workload runs on the Node before the Machine is initialized.
    """
    labels, taints = _Labels(node), _Taints(node)
    labels.want(want.labels)
    for taint in want.taints:
        once = taint.propagation is Propagation.ON_INITIALIZATION
        taints.want((taint.key, taint.effect), taint.value, once=once, initialized=initialized)
    if starts_empty and not initialized:
        taints.want((UNINITIALIZED, NO_SCHEDULE), "", once=True, initialized=False)
    if initialized:
        taints.drop_key(UNINITIALIZED)
    taints.leave()
    annotations = {
        MACHINE: machine,
        LABELS_FROM_MACHINE: labels.record(),
        TAINTS_FROM_MACHINE: taints.record(),
    }
    return NodePatch(
        _body(node, labels.change, annotations, taints),
        (*labels.conflicts, *taints.conflicts),
        (*labels.overwritten, *taints.overwritten),
    )


def release(node: Node, machine: str) -> Mapping[str, Any]:
    """Return the patch that removes what this Machine set, empty if it set nothing."""
    if node.metadata.annotations.get(MACHINE) != machine:
        return {}
    labels, taints = _Labels(node), _Taints(node)
    labels.want({})
    taints.leave()
    gone = dict.fromkeys((MACHINE, LABELS_FROM_MACHINE, TAINTS_FROM_MACHINE))
    return _body(node, labels.change, gone, taints)


def _body(
    node: Node,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None],
    taints: "_Taints",
) -> dict[str, Any]:
    have = node.metadata.annotations
    changed = {k: v for k, v in annotations.items() if have.get(k) != (v or None)}
    metadata: dict[str, Any] = {}
    if labels:
        metadata["labels"] = dict(labels)
    if changed:
        metadata["annotations"] = {k: v or None for k, v in changed.items()}
    body: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if taints.changed:
        body["spec"] = {"taints": [_written(taint) for taint in taints.taints.values()]}
    return body


def _written(taint: Taint) -> dict[str, Any]:
    """Return the taint with all fields that the server keeps, because the list is replaced as a
    whole.
    """
    fields: dict[str, Any] = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        fields["value"] = taint.value
    if taint.time_added is not None:
        fields["timeAdded"] = taint.time_added
    return fields


class _Labels:
    def __init__(self, node: Node) -> None:
        self._have = node.metadata.labels
        self._ours = _read(node.metadata.annotations.get(LABELS_FROM_MACHINE, ""))
        self._retained: dict[str, str] = {}
        self.change: dict[str, str | None] = {}
        self.conflicts: list[str] = []
        self.overwritten: list[str] = []

    def want(self, labels: Mapping[str, str]) -> None:
        """Plan these labels, and remove other labels that we set."""
        for key, value in labels.items():
            self._sync_label(key, value)
        for key, value in self._ours.items():
            if key not in labels and self._have.get(key) == value:
                self.change[key] = None

    def _sync_label(self, key: str, value: str) -> None:
        have, ours = self._have.get(key), self._ours.get(key)
        if have is not None and ours is None:
            if have != value:
                self.conflicts.append(f"label {key} is {have!r}, not {value!r}")
            return
        self._retained[key] = value
        if have != value:
            self.change[key] = value
            if have != ours:
                self.overwritten.append(key)

    def record(self) -> str:
        return ",".join(f"{key}={value}" for key, value in sorted(self._retained.items()))


class _Taints:
    def __init__(self, node: Node) -> None:
        self.taints: dict[Kind, Taint] = {(t.key, t.effect): t for t in node.spec.taints}
        self._ours = _read_taints(node.metadata.annotations.get(TAINTS_FROM_MACHINE, ""))
        self._retained: dict[Kind, str] = {}
        self._wanted: set[Kind] = set()
        self.changed = False
        self.conflicts: list[str] = []
        self.overwritten: list[str] = []

    def want(self, kind: Kind, value: str, *, once: bool, initialized: bool) -> None:
        """Plan a taint.

        once: the taint is only put on at the beginning, and stays off if somebody removes it.
        """
        self._wanted.add(kind)
        have, ours = self.taints.get(kind), self._ours.get(kind)
        if have is not None and ours is None:
            if have.value != value:
                self.conflicts.append(
                    f"taint {_format_kind(kind)} is {have.value!r}, not {value!r}"
                )
            return
        if once and have is None and (ours is not None or initialized):
            if ours is not None and not initialized:
                self._retained[kind] = ours  # keep the record, or it would be set again
            return
        self._retained[kind] = value
        if have is not None and have.value == value:
            return
        self._put(kind, value)
        if ours is not None and (have is None or have.value != ours):
            self.overwritten.append(kind[0])

    def leave(self) -> None:
        """Remove the taints that we set and that are no longer wanted."""
        for kind, value in self._ours.items():
            have = self.taints.get(kind)
            if kind not in self._wanted and have is not None and have.value == value:
                self._drop(kind)

    def drop_key(self, key: str) -> None:
        """Remove all taints with this key, whoever set them. A kubelet may register with it."""
        for kind in [kind for kind in self.taints if kind[0] == key]:
            self._drop(kind)

    def record(self) -> str:
        retained = sorted(self._retained.items())
        return ",".join(f"{key}={value}:{effect}" for (key, effect), value in retained)

    def _put(self, kind: Kind, value: str) -> None:
        self.taints[kind] = Taint(kind[0], value, kind[1])
        self.changed = True

    def _drop(self, kind: Kind) -> None:
        del self.taints[kind]
        self.changed = True


def _format_kind(kind: Kind) -> str:
    return f"{kind[0]}:{kind[1]}"


def _read(text: str) -> dict[str, str]:
    return dict(_pairs(text))


def _read_taints(text: str) -> dict[Kind, str]:
    taints: dict[Kind, str] = {}
    for key, rest in _pairs(text):
        value, _, effect = rest.rpartition(":")
        taints[key, effect] = value
    return taints


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    """Yield the entries of the annotation. Unreadable parts are skipped and so left alone."""
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if sign:
            yield key, value
