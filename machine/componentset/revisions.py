"""Revisions of a set: their content, names and history. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import MachineNode
from kubenode.api.v1alpha1.machinecomponentset import MachineComponentSet, SetRevision
from kubenode.api.v1alpha1.machinestatus import ComponentStatus
from kubenode.api.v1alpha1.machinework import AssignedComponent, DesiredState
from kubenode.runtime.components import wire
from kubenode.runtime.components.change import ComponentForm, form_of
from kubenode.runtime.components.hashes import config_hash, revision, text_digests
from kubenode.runtime.components.render import (
    KeyText,
    TemplateError,
    TextRef,
    machine_values,
    rendered,
)
from machine.componentset.rollout import AssignmentMove
from machine.machine.success import status_of

HISTORY_LIMIT = 10
"""Revisions to keep in the history besides those in use."""
MOST = 64
"""Greatest number of revisions in a status, as the CRD allows."""


class _Recorded(dict[str, str]):
    """Mapping that records which names a template asks for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.requested: dict[str, None] = {}

    def __contains__(self, key: object) -> bool:
        self.requested[str(key)] = None
        return super().__contains__(key)


@dataclass(slots=True)
class AssignableRevision:
    """A revision with everything that is needed to assign it.

    name: the name of the revision.
    component: the name of the MachineComponent.
    values: the set's values for templates.
    texts: the referenced texts.
    exact: the revision name was computed from these texts. False if they have been edited since.
    _used: the machine values that the templates ask for; None before the first rendering.
    _hashes: the hash of the rendered content, by the machine values in use.
    """

    name: str
    component: str
    spec: wire.ComponentSpec
    values: Mapping[str, str]
    desired: DesiredState
    texts: Mapping[TextRef, KeyText]
    exact: bool = True
    _used: tuple[str, ...] | None = None
    _hashes: dict[tuple[str | None, ...], str] = field(default_factory=dict)

    def hash_on(self, machine: Machine) -> str:
        """Return the hash of what the revision renders to on the machine.

        Machines with equal values for what the templates ask for share one rendering. Raises
        TemplateError.
        """
        has = machine_values(_wired(machine))
        if self._used is not None:
            key = tuple(has.get(name) for name in self._used)
            if (known := self._hashes.get(key)) is not None:
                return known
        recorded = _Recorded(has)
        digest = config_hash(rendered(self.spec, self.values, recorded, self.texts))
        self._used = tuple(recorded.requested)
        if len(self._hashes) >= 65536:
            self._hashes.clear()
        self._hashes[tuple(has.get(name) for name in self._used)] = digest
        return digest

    def form_on(self, machine: Machine) -> ComponentForm | None:
        """Return what of the revision is in force on the machine, None for nothing. Raises
        TemplateError.
        """
        has = machine_values(_wired(machine))
        rendering = rendered(self.spec, self.values, has, self.texts)
        return form_of(self.spec, rendering, self.desired.value)

    def assigned(
        self, move: AssignmentMove, machine: Machine, set_: str, now: datetime
    ) -> AssignedComponent:
        """Return the assignment for a move. Raises TemplateError."""
        family = self.spec.component
        return AssignedComponent(
            name=family,
            component=self.component,
            set=set_,
            revision=self.name,
            config_hash=self._written(machine, status_of(machine, family)),
            values=dict(self.values),
            desired_state=DesiredState.STAGED if move.ahead else self.desired,
            attempt=move.attempt,
            batch=move.batch,
            assigned_at=now,
        )

    def stale(self, entry: AssignedComponent, machine: Machine) -> bool:
        """Return whether the assignment was rendered from machine values that have changed since.

        False if the template fails, if texts were edited, or if the hash has another version: then
        a different hash does not prove different content.
        """
        try:
            now = self.hash_on(machine)
        except TemplateError:
            return False
        same = version_of(now) == version_of(entry.config_hash)
        return self.exact and same and now != entry.config_hash

    def _written(self, machine: Machine, status: ComponentStatus | None) -> str:
        """Return the hash to assign.

        If texts were edited since, and the previous content on the host is of the same component,
        return the hash of that content, so that the machine returns to it.
        """
        before = status.previous if status is not None else None
        if not self.exact and before is not None and before.component == self.component:
            return before.config_hash or self.hash_on(machine)
        return self.hash_on(machine)


def version_of(name: str) -> str:
    """Return the version of the hash algorithm in the name of a revision or content hash."""
    return name.partition("-")[0]


def named(
    spec: wire.ComponentSpec,
    values: Mapping[str, str],
    desired: DesiredState,
    texts: Mapping[TextRef, KeyText],
) -> str:
    """Return the name of the revision made of these parts."""
    return revision(spec, values, desired.value, text_digests(texts))


def choose_name(computed: str, set_: MachineComponentSet, edited: Callable[[str], bool]) -> str:
    """Return the name of the revision that the spec asks for.

    A new hash algorithm does not rename a revision with equal content, so that an upgrade of the
    operator starts no rollout.

    computed: the name by the algorithm of this version.
    edited: returns whether the computed name has changed since this process first saw the revision.
    """
    known = next((r for r in set_.status.revisions if r.name == set_.status.update_revision), None)
    if known is None or version_of(known.name) == version_of(computed):
        return computed
    spec = set_.spec
    same = (known.component, known.values, known.desired_state) == (
        spec.component,
        spec.values,
        spec.desired_state,
    )
    return known.name if same and not edited(known.name) else computed


def history(
    known: Sequence[SetRevision],
    made: AssignableRevision | None,
    in_use: Collection[str],
    now: datetime,
) -> list[SetRevision]:
    """Return the revisions to keep, oldest first: the last ten, all in use, and the new one.

    known: the revisions in the status.
    made: the revision that the spec asks for, None if it is unknown.
    """
    revisions = list(known)
    if made is not None and all(r.name != made.name for r in revisions):
        number = max((r.number for r in revisions), default=0) + 1
        revisions.append(
            SetRevision(
                name=made.name,
                number=number,
                component=made.component,
                values=dict(made.values),
                desired_state=made.desired,
                created_at=now,
            )
        )
    last = {r.name for r in sorted(revisions, key=lambda r: r.number)[-HISTORY_LIMIT:]}
    wanted = [r for r in revisions if r.name in last or r.name in in_use]
    return sorted(wanted, key=lambda r: r.number)[-MOST:]


def _wired(machine: Machine) -> wire.WireMachine:
    meta, spec, host = machine.metadata, machine.spec, machine.status.host
    return wire.WireMachine(
        wire.WireMachineMetadata(name=meta.name, labels=meta.labels),
        wire.WireMachineSpec(
            origin=spec.origin,
            node=spec.node,
            node_name=spec.node_name,
            provider_id=spec.provider_id,
            node_template=_wired_template(spec.node_template),
            addresses=spec.addresses,
            failure_domain=spec.failure_domain,
        ),
        wire.WireMachineStatus(
            host=wire.WireMachineHost(os=host.os, arch=host.arch) if host is not None else None
        ),
    )


def _wired_template(template: MachineNode) -> wire.WireNodeTemplate:
    taints = [wire.WireTaint(t.key, t.effect, t.value) for t in template.taints]
    return wire.WireNodeTemplate(template.labels, taints)


def components_of(revisions: Iterable[SetRevision]) -> frozenset[str]:
    """Return the names of the MachineComponents of the revisions."""
    return frozenset(r.component for r in revisions)
