"""Resolve the target and current revision of a set, so that they can be assigned."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1 import MachineComponent, MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import SetRevision
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.components import wire
from kubenode.runtime.components.render import KeyText, TextRef, references
from machine.componentset.access import NAMESPACE, ReferencedTexts, ServerVersion
from machine.componentset.revisions import AssignableRevision, choose_name, named
from machine.componentset.rollout import ConditionMessage
from machine.componentset.skew import describe_skew, needs_server


@dataclass(frozen=True, slots=True)
class Aim:
    """The revisions of a set.

    target: the revision that the spec asks for, None if it cannot be determined.
    current: the last completed revision, None if there is none or its component is gone.
    problem: why the target must not be rolled out, None if it may.
    texts: whether the component refers to texts that may be edited.
    """

    target: AssignableRevision | None = None
    current: AssignableRevision | None = None
    problem: ConditionMessage | None = None
    texts: bool = False

    @property
    def family(self) -> str:
        """The component that the set assigns, whatever its version; "" if unknown."""
        made = self.target or self.current
        return made.spec.component if made is not None else ""


class ComponentLookup(Protocol):
    """MachineComponents by name."""

    def get(self, key: str, /) -> MachineComponent | None: ...


@dataclass(slots=True)
class Aimer:
    """Resolver of revisions.

    _specs: by MachineComponent, its uid and its spec in wire form.
    """

    components: ComponentLookup
    texts: ReferencedTexts
    server: ServerVersion
    _specs: dict[str, tuple[str, wire.ComponentSpec]] = field(default_factory=dict)
    _first: dict[tuple[str, str], str] = field(default_factory=dict)
    """By set uid and revision name, the name computed when this process first saw the revision."""

    async def aim(self, set_: MachineComponentSet) -> Aim:
        """Resolve the revisions of the set. Reads referenced ConfigMaps and Secrets. Raises
        KubeError.
        """
        spec, status = set_.spec, set_.status
        current = await self._current(set_)
        wanted = self.spec_of(spec.component)
        if wanted is None:
            missing = f"MachineComponent {spec.component} is not there"
            return Aim(None, current, ConditionMessage(RolloutReason.MISSING_COMPONENT, missing))
        texts, lacks = await self._read(wanted)
        refers = bool(references(wanted))
        if lacks:
            missing_message = ConditionMessage(
                RolloutReason.MISSING_COMPONENT, f"{lacks} is not in namespace {NAMESPACE}"
            )
            return Aim(None, current, missing_message, refers)
        computed = named(wanted, spec.values, spec.desired_state, texts)
        name = choose_name(computed, set_, lambda known: self._edited(set_, known, computed))
        target = AssignableRevision(
            name, spec.component, wanted, spec.values, spec.desired_state, texts
        )
        if current is not None and current.name == name:
            current = target
        news = name != status.current_revision
        problem = await self._refused(wanted) if news else None
        return Aim(target, current, problem, refers)

    def family_of(self, set_: MachineComponentSet) -> str:
        """Return the component of the set, whatever its version; "" if its MachineComponent is
        missing.
        """
        spec = self.spec_of(set_.spec.component)
        return spec.component if spec is not None else ""

    def spec_of(self, name: str) -> wire.ComponentSpec | None:
        """Return the spec of a MachineComponent, None if it does not exist. The spec is
        immutable.
        """
        component = self.components.get(name)
        if component is None:
            self._specs.pop(name, None)
            return None
        known = self._specs.get(name)
        if known is None or known[0] != component.metadata.uid:
            plain = component.spec.model_dump(mode="json", by_alias=True)
            known = self._specs[name] = (component.metadata.uid, wire.spec_of(plain))
        return known[1]

    async def of(
        self, set_: MachineComponentSet, names: Collection[str]
    ) -> dict[str, AssignableRevision]:
        """Return other revisions of the history, by name, except those whose component is gone."""
        wanted = [r for r in set_.status.revisions if r.name in names]
        revisions = [made for r in wanted if (made := await self._made(r)) is not None]
        return {made.name: made for made in revisions}

    async def _current(self, set_: MachineComponentSet) -> AssignableRevision | None:
        status = set_.status
        made = next((r for r in status.revisions if r.name == status.current_revision), None)
        return await self._made(made) if made is not None else None

    async def _made(self, revision: SetRevision) -> AssignableRevision | None:
        desired = DesiredState(revision.desired_state)
        made = await self.made(revision.name, revision.component, revision.values, desired)
        return made[0] if made is not None else None

    async def made(
        self, name: str, component: str, values: Mapping[str, str], desired: DesiredState
    ) -> tuple[AssignableRevision, str] | None:
        """Return a revision from its parts, and the reference that is missing, "" for none.

        None if its MachineComponent does not exist.
        """
        spec = self.spec_of(component)
        if spec is None:
            return None
        texts, lacks = await self._read(spec)
        exact = not lacks and named(spec, values, desired, texts) == name
        return AssignableRevision(name, component, spec, values, desired, texts, exact), lacks

    async def _read(self, spec: wire.ComponentSpec) -> tuple[Mapping[TextRef, KeyText], str]:
        """Return the texts to which the component refers, and a reference that is missing, "" for
        none.
        """
        wanted = references(spec)
        texts = await self.texts.of(wanted)
        return texts, next((str(ref) for ref in wanted if ref not in texts), "")

    def _edited(self, set_: MachineComponentSet, known: str, computed: str) -> bool:
        """Return whether the content of the revision has changed since this process first saw
        it.
        """
        first = self._first.setdefault((set_.metadata.uid, known), computed)
        if len(self._first) > 4096:
            self._first.clear()
        return first != computed

    async def _refused(self, spec: wire.ComponentSpec) -> ConditionMessage | None:
        """Return why the API server's version rules out the component, None if it does not."""
        if not needs_server(spec):
            return None
        skew = describe_skew(spec, await self.server.read())
        return ConditionMessage(RolloutReason.VERSION_SKEW, skew) if skew else None
