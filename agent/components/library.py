"""Reads an assigned component from the API server and renders it for this host.

A MachineComponent is immutable and read once. ConfigMaps and Secrets are read again for each
revision, because an edit of one is a new revision that a set rolls out. A rendering whose hash
differs from the Machine's hash is not applied, unless the host still has a copy of the right one.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from agent.components.model import ComponentRecord, StoredComponent
from kubenode.runtime.components.hashes import config_hash
from kubenode.runtime.components.order import unfit
from kubenode.runtime.components.render import (
    KeyText,
    RenderedFiles,
    TemplateError,
    TextRef,
    machine_values,
    references,
    rendered,
)
from kubenode.runtime.components.wire import (
    Assigned,
    Component,
    ComponentSpec,
    WireDesiredState,
    WireMachine,
    WireMachineHost,
)
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound, Undecodable
from kubenode.runtime.kube.objects import structs
from kubenode.runtime.kube.paths import custom, resource

PLURAL = "machinecomponents"
NAMESPACE = "kubenode-components"
MOST_CACHED = 64

_decode_component = structs(Component)


class ComponentProblem(Exception):
    """A component cannot be applied on this host as the Machine assigns it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


class _TextObject(msgspec.Struct):
    """A ConfigMap or Secret."""

    metadata: dict[str, Any] = {}
    data: dict[str, str] = {}


_decode_texts = structs(_TextObject)


class Library:
    """Loads assigned components. host: this host, as in `status.host`."""

    def __init__(self, kube: Kube, host: WireMachineHost) -> None:
        self._kube, self._host = kube, host
        self._specs: dict[str, ComponentSpec] = {}

    async def load_component(
        self, wanted: Assigned, machine: WireMachine, record: ComponentRecord
    ) -> StoredComponent:
        """Return the component, rendered for this host. Raises ComponentProblem, KubeError."""
        spec = await self._spec(wanted)
        if wanted.desired_state == WireDesiredState.ABSENT:
            return StoredComponent(
                wanted.component, wanted.config_hash, spec, RenderedFiles(), "Absent"
            )
        if why := _unfit(spec, self._host):
            raise ComponentProblem("RequirementsNotMet", why)
        try:
            texts = await self._texts(references(spec))
            machine = replace(machine, status=replace(machine.status, host=self._host))
            made = rendered(spec, wanted.values, machine_values(machine), texts)
        except TemplateError as error:
            if copy := _copy(wanted, record):
                return copy
            raise ComponentProblem("BadTemplate", str(error)) from error
        if config_hash(made) != wanted.config_hash:
            if copy := _copy(wanted, record):
                return copy
            raise ComponentProblem(
                "ConfigChanged",
                f"its files come to {config_hash(made)} here and not to {wanted.config_hash}: a"
                " ConfigMap, Secret or label has changed since; the set gives a new revision",
            )
        return StoredComponent(
            wanted.component, wanted.config_hash, spec, made, wanted.desired_state
        )

    def forget(self, component: str) -> None:
        """Drop the cached spec: another revision may name another MachineComponent."""
        self._specs.pop(component, None)

    async def _spec(self, wanted: Assigned) -> ComponentSpec:
        if (known := self._specs.get(wanted.component)) is not None:
            return known
        try:
            component = await self._kube.get(custom(PLURAL, wanted.component), _decode_component)
        except NotFound as error:
            raise ComponentProblem(
                "MissingComponent", f"no MachineComponent {wanted.component}"
            ) from error
        except Undecodable as error:
            text = f"MachineComponent {wanted.component} is beyond this agent: update it ({error})"
            raise ComponentProblem("NotUnderstood", text) from error
        if component.spec.component != wanted.name:
            text = f"MachineComponent {wanted.component} is of {component.spec.component}"
            raise ComponentProblem("WrongComponent", text)
        if len(self._specs) >= MOST_CACHED:
            self._specs.clear()
        self._specs[wanted.component] = component.spec
        return component.spec

    async def _texts(self, refs: Iterable[TextRef]) -> dict[TextRef, KeyText]:
        """Return the texts that exist. Each ConfigMap and Secret is read once, whatever its
        keys.
        """
        texts: dict[TextRef, KeyText] = {}
        objects: dict[tuple[str, str], _TextObject | None] = {}
        for ref in refs:
            if (ref.kind, ref.name) not in objects:
                objects[ref.kind, ref.name] = await self._object(ref)
            source = objects[ref.kind, ref.name]
            if source is not None and ref.key in source.data:
                texts[ref] = _text(ref, source)
        return texts

    async def _object(self, ref: TextRef) -> _TextObject | None:
        plural = "secrets" if ref.kind == "Secret" else "configmaps"
        path = resource("/api/v1", plural, namespace=NAMESPACE, name=ref.name)
        try:
            return await self._kube.get(path, _decode_texts)
        except NotFound:
            return None


def _text(ref: TextRef, source: _TextObject) -> KeyText:
    """Return the text of one key. Raises ComponentProblem for a Secret that is not UTF-8."""
    content = source.data[ref.key]
    if ref.kind != "Secret":
        return KeyText(content)
    try:
        return KeyText(base64.b64decode(content).decode(), str(source.metadata.get("uid", "")))
    except (binascii.Error, UnicodeDecodeError):
        raise ComponentProblem("BadTemplate", f"{ref} is no UTF-8 text") from None


def _copy(wanted: Assigned, record: ComponentRecord) -> StoredComponent | None:
    """Return a copy with the same configuration that this host stores; None if it has none."""
    for stored in (record.applied, record.previous, record.target, record.stray):
        if stored is None or stored.component != wanted.component:
            continue
        if stored.config_hash == wanted.config_hash:
            return replace(stored, desired_state=wanted.desired_state)
    return None


def _unfit(spec: ComponentSpec, host: WireMachineHost) -> str:
    try:
        return unfit(spec, host)
    except ValueError as error:
        raise ComponentProblem("NotUnderstood", str(error)) from error
