"""The files and units of a component on one machine, with the values filled in.

    ${values.NAME}    a value of the component on this machine
    ${machine.NAME}   name, node, zone, address, os, arch, providerID, nodeLabels, nodeTaints,
                      labels.KEY
    $${               stands for ${

Any other `${...}`, and a name without a value, is an error: an incomplete configuration is never
written. The content of a Secret is in no text for people: neither in errors nor in the repr of
rendered files.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from kubenode.runtime.components.wire import (
    ComponentSpec,
    Ownership,
    UnitState,
    WireChangeClass,
    WireComponentFile,
    WireComponentUnit,
    WireMachine,
)

_PLACE = re.compile(r"(\$\$\{)|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"(values|machine)\.(.+)")
MACHINE_NAMES = (
    "name",
    "node",
    "zone",
    "address",
    "os",
    "arch",
    "providerID",
    "nodeLabels",
    "nodeTaints",
)
UNINITIALIZED = "kubenode.io/uninitialized"
"""Taint that keeps pods off a new node until its Machine is initialized."""
LABELS = "labels."


class TemplateError(Exception):
    """A component cannot be rendered. The text names the place and what is missing there."""


class TextRef(NamedTuple):
    """A key of a ConfigMap or Secret of namespace kubenode-components.

    kind: ConfigMap or Secret
    """

    kind: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}, key {self.key}"


class KeyText(NamedTuple):
    """The content of a key.

    salt: UID of the Secret, known only to those who may read it; "" for a ConfigMap
    """

    content: str
    salt: str = ""

    def __repr__(self) -> str:
        return "KeyText(...)"


class RenderedFile(msgspec.Struct, frozen=True):
    """A file of a component, with the values filled in.

    salt: if not "", the content is secret, and only its digest under this salt is ever shown
    """

    path: str
    content: str
    mode: str = "0644"
    owner: str = "root:root"
    ownership: Ownership = Ownership.WHOLE
    on_change: WireChangeClass = WireChangeClass.DRAIN
    salt: str = ""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the content, keyed with the salt if it is secret."""
        return digest(self.content, self.salt)

    def __repr__(self) -> str:
        return f"RenderedFile({self.path!r}, {self.digest[:10]})"


class RenderedDropIn(msgspec.Struct, frozen=True):
    name: str
    content: str


class RenderedUnit(msgspec.Struct, frozen=True):
    name: str
    enabled: bool = True
    state: UnitState = UnitState.ACTIVE
    drop_ins: tuple[RenderedDropIn, ...] = ()
    on_change: WireChangeClass = WireChangeClass.RESTART


class RenderedFiles(msgspec.Struct, frozen=True):
    files: tuple[RenderedFile, ...] = ()
    units: tuple[RenderedUnit, ...] = ()


def digest(content: str, salt: str = "") -> str:
    """Return 64 hex digits, keyed with `salt` if there is one.

    Without a secret's salt nobody can find out its content by trial.
    """
    data = content.encode()
    if salt:
        return hmac.new(salt.encode(), data, hashlib.sha256).hexdigest()
    return hashlib.sha256(data).hexdigest()


def references(spec: ComponentSpec) -> tuple[TextRef, ...]:
    """List the keys that `rendered` needs, each once."""
    refs = (_reference(file) for file in spec.files)
    return tuple(dict.fromkeys(ref for ref in refs if ref is not None))


def machine_values(machine: WireMachine) -> dict[str, str]:
    """Return the values of `${machine.*}`. Unknown properties of the machine are left out."""
    host = machine.status.host
    known = {
        "name": machine.metadata.name,
        "node": machine.spec.node_name or machine.metadata.name,
        "zone": machine.spec.failure_domain,
        "address": machine.spec.addresses[0] if machine.spec.addresses else "",
        "os": host.os if host else "",
        "arch": host.arch if host else "",
        "providerID": machine.spec.provider_id,
    }
    labels = {f"{LABELS}{key}": value for key, value in machine.metadata.labels.items()}
    node = {"nodeLabels": _node_labels(machine), "nodeTaints": _node_taints(machine)}
    return {name: value for name, value in known.items() if value} | node | labels


def _node_labels(machine: WireMachine) -> str:
    """Return the labels of `spec.nodeTemplate` as the kubelet's `--node-labels` takes them."""
    labels = machine.spec.node_template.labels
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def _node_taints(machine: WireMachine) -> str:
    """Return the taints of a new Node as the kubelet's `--register-with-taints` takes them."""
    spec = machine.spec
    taints = [f"{t.key}={t.value}:{t.effect}" for t in spec.node_template.taints]
    if spec.node == "Join" or spec.origin == "Provision":
        taints.append(f"{UNINITIALIZED}=:NoSchedule")
    return ",".join(sorted(taints))


def rendered(
    spec: ComponentSpec,
    values: Mapping[str, str],
    machine: Mapping[str, str],
    texts: Mapping[TextRef, KeyText],
) -> RenderedFiles:
    """Render a component for one machine. Raises TemplateError."""
    scopes = {"values": values, "machine": machine}
    return RenderedFiles(
        tuple(_file(file, scopes, texts) for file in spec.files),
        tuple(_unit(unit, scopes) for unit in spec.units),
    )


def _file(
    file: WireComponentFile,
    scopes: Mapping[str, Mapping[str, str]],
    texts: Mapping[TextRef, KeyText],
) -> RenderedFile:
    where = f"file {file.path}"
    ref = _reference(file)
    if ref is None:
        text = KeyText(file.content.inline or "")
    elif (key_text := texts.get(ref)) is None:
        raise TemplateError(f"{where}: {ref} is not in namespace kubenode-components")
    else:
        text = key_text
    return RenderedFile(
        file.path,
        fill_in(text.content, scopes, where),
        file.mode,
        file.owner,
        file.ownership,
        file.on_change,
        text.salt,
    )


def _unit(unit: WireComponentUnit, scopes: Mapping[str, Mapping[str, str]]) -> RenderedUnit:
    drop_ins = tuple(
        RenderedDropIn(d.name, fill_in(d.content, scopes, f"unit {unit.name}, drop-in {d.name}"))
        for d in unit.drop_ins
    )
    return RenderedUnit(unit.name, unit.enabled, unit.state, drop_ins, unit.on_change)


def _reference(file: WireComponentFile) -> TextRef | None:
    if (key := file.content.config_map_key) is not None:
        return TextRef("ConfigMap", key.name, key.key)
    if (key := file.content.secret_key) is not None:
        return TextRef("Secret", key.name, key.key)
    return None


class Placeholder(NamedTuple):
    """A placeholder: `where` it is, its `scope` (`values` or `machine`), and its name."""

    where: str
    scope: str
    name: str


def list_placeholders(spec: ComponentSpec) -> list[Placeholder]:
    """List all placeholders of a component's own texts, without those of ConfigMaps and Secrets.

    Raises TemplateError for one that no value can ever fill.
    """
    texts = [
        *((f"file {file.path}", file.content.inline or "") for file in spec.files),
        *(
            (f"unit {unit.name}, drop-in {drop_in.name}", drop_in.content)
            for unit in spec.units
            for drop_in in unit.drop_ins
        ),
    ]
    return [placeholder for where, text in texts for placeholder in _scan_template(text, where)]


def _scan_template(template: str, where: str) -> Iterator[Placeholder]:
    for match in _PLACE.finditer(template):
        if not match.group(1):
            yield _placeholder(match, where)


def _placeholder(match: re.Match[str], where: str) -> Placeholder:
    _, inside, closed = match.groups()
    if not closed:
        raise TemplateError(f"{where}: a ${{ is not closed; write $${{ for one that stays")
    name = _NAME.fullmatch(inside)
    if name is None or (name.group(1) == "machine" and not _of_a_machine(name.group(2))):
        raise TemplateError(
            f"{where}: {match.group()} is no placeholder: write ${{values.NAME}}, one of"
            f" ${{machine.{'|'.join(MACHINE_NAMES)}|labels.KEY}}, or $${{ for a ${{ that stays"
        )
    return Placeholder(where, name.group(1), name.group(2))


def _of_a_machine(name: str) -> bool:
    return name in MACHINE_NAMES or (name.startswith(LABELS) and name != LABELS)


def fill_in(template: str, scopes: Mapping[str, Mapping[str, str]], where: str) -> str:
    """Fill in the placeholders of `template`. `where` names it in a TemplateError."""

    def value(match: re.Match[str]) -> str:
        if match.group(1):
            return "${"
        place = _placeholder(match, where)
        if place.name not in scopes[place.scope]:
            raise TemplateError(
                f"{where}: {match.group()} has no value; write $${{ for a ${{ that stays"
            )
        return scopes[place.scope][place.name]

    return _PLACE.sub(value, template)
