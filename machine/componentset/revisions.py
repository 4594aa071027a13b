"""Revisions of a set: what each is made of, what it is called, and which are kept. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.v1alpha1 import Machine
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

KEPT = 10
MOST = 64


class _Recorded(dict[str, str]):
    """Remembers which names were asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.asked: dict[str, None] = {}

    def __contains__(self, key: object) -> bool:
        self.asked[str(key)] = None
        return super().__contains__(key)


@dataclass(slots=True)
class AssignableRevision:
    """A revision that can be assigned.

    exact  its texts are those that it was named by; else they have been edited since
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
        """Of what it renders to there. Raises TemplateError.

        Machines that do not differ in what the templates ask for share one rendering.
        """
        has = machine_values(_wired(machine))
        if self._used is not None:
            key = tuple(has.get(name) for name in self._used)
            if (known := self._hashes.get(key)) is not None:
                return known
        recorded = _Recorded(has)
        found = config_hash(rendered(self.spec, self.values, recorded, self.texts))
        self._used = tuple(recorded.asked)
        if len(self._hashes) >= 65536:
            self._hashes.clear()
        self._hashes[tuple(has.get(name) for name in self._used)] = found
        return found

    def form_on(self, machine: Machine) -> ComponentForm | None:
        """What of it is in force there, None for nothing. Raises TemplateError."""
        has = machine_values(_wired(machine))
        found = rendered(self.spec, self.values, has, self.texts)
        return form_of(self.spec, found, self.desired.value)

    def assigned(
        self, move: AssignmentMove, machine: Machine, set_: str, now: datetime
    ) -> AssignedComponent:
        """What the move writes. Raises TemplateError."""
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
        """Whether it was rendered for what the machine no longer is. Another version of hashes
        says nothing of content."""
        try:
            now = self.hash_on(machine)
        except TemplateError:
            return False
        same = version_of(now) == version_of(entry.config_hash)
        return self.exact and same and now != entry.config_hash

    def _written(self, machine: Machine, status: ComponentStatus | None) -> str:
        """What its host still has of texts that were edited since is gone back to."""
        before = status.previous if status is not None else None
        if not self.exact and before is not None and before.component == self.component:
            return before.config_hash or self.hash_on(machine)
        return self.hash_on(machine)


def version_of(name: str) -> str:
    """Of the way in which a revision or a content was hashed."""
    return name.partition("-")[0]


def named(
    spec: wire.ComponentSpec,
    values: Mapping[str, str],
    desired: DesiredState,
    texts: Mapping[TextRef, KeyText],
) -> str:
    return revision(spec, values, desired.value, text_digests(texts))


def kept_name(computed: str, set_: MachineComponentSet, edited: Callable[[str], bool]) -> str:
    """A newer way of hashing renames nothing that is equal: an upgrade of the operator rolls
    nothing.

    edited  whether `computed` is another than when this process first saw the revision
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
    """Oldest first: the last ten and all in use, with the new one."""
    found = list(known)
    if made is not None and all(r.name != made.name for r in found):
        number = max((r.number for r in found), default=0) + 1
        found.append(
            SetRevision(
                name=made.name,
                number=number,
                component=made.component,
                values=dict(made.values),
                desired_state=made.desired,
                created_at=now,
            )
        )
    last = {r.name for r in sorted(found, key=lambda r: r.number)[-KEPT:]}
    wanted = [r for r in found if r.name in last or r.name in in_use]
    return sorted(wanted, key=lambda r: r.number)[-MOST:]


def _wired(machine: Machine) -> wire.Machine:
    meta, spec, host = machine.metadata, machine.spec, machine.status.host
    return wire.Machine(
        wire.Metadata(name=meta.name, labels=meta.labels),
        wire.MachineSpec(
            node_name=spec.node_name, addresses=spec.addresses, failure_domain=spec.failure_domain
        ),
        wire.MachineStatus(
            host=wire.MachineHost(os=host.os, arch=host.arch) if host is not None else None
        ),
    )


def components_of(revisions: Iterable[SetRevision]) -> frozenset[str]:
    return frozenset(r.component for r in revisions)
