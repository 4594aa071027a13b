"""MachineComponents, and the components of a Machine, for msgspec: only the fields that are read.

Defaults are those of the API. A written default equals a missing field, also in hashes, so that a
newer operator with one more field starts no rollout. Enums of the API that a newer version may
extend are plain strings in a Machine: an unknown value must not stop its other components.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from kubenode.runtime.duration import seconds


class WireChangeClass(StrEnum):
    """How much a change disturbs its host, mildest first."""

    NONE = "None"
    RELOAD = "Reload"
    RESTART = "Restart"
    DRAIN = "Drain"
    REBOOT = "Reboot"

    @property
    def weight(self) -> int:
        return _WEIGHTS[self]


_WEIGHTS = {class_: weight for weight, class_ in enumerate(WireChangeClass)}


class WireDesiredState(StrEnum):
    RUNNING = "Running"
    INSTALLED = "Installed"
    STAGED = "Staged"
    ABSENT = "Absent"


class Ownership(StrEnum):
    WHOLE = "Whole"
    KEYS = "Keys"


class UnitState(StrEnum):
    ACTIVE = "Active"
    INACTIVE = "Inactive"
    MASKED = "Masked"


class WireUndoMode(StrEnum):
    AUTO = "Auto"
    SCRIPT = "Script"
    NONE = "None"


class Wire(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """Base of all structs: camelCase names, unknown fields ignored, defaults not written."""


# -- MachineComponent -----------------------------------------------------------------------------


class WireRequires(Wire, frozen=True):
    os: list[str] = []
    arch: list[str] = []
    api_server: str = ""
    kernel: str = ""


class WireDependsOn(Wire, frozen=True):
    component: str
    version: str = ""


class WirePackage(Wire, frozen=True):
    name: str
    version: str


class WirePackages(Wire, frozen=True):
    packages: list[WirePackage]
    hold: bool = True
    lock_wait: str = "5m"

    @property
    def lock_wait_seconds(self) -> float:
        return seconds(self.lock_wait)


class WireTarball(Wire, frozen=True):
    url: str
    sha256: str
    dest: str
    allow: list[str] = []


class WireOci(Wire, frozen=True):
    ref: str
    dest: str
    allow: list[str] = []


class WireScript(Wire, frozen=True):
    detect: list[str]
    install: list[str]
    uninstall: list[str]


class WireComponentSource(Wire, frozen=True):
    """Source of a component. `type` names the one field that is set."""

    type: str
    apt: WirePackages | None = None
    dnf: WirePackages | None = None
    tarball: WireTarball | None = None
    oci: WireOci | None = None
    script: WireScript | None = None


class WireKeyReference(Wire, frozen=True):
    name: str
    key: str


class WireFileContent(Wire, frozen=True):
    inline: str | None = None
    config_map_key: WireKeyReference | None = None
    secret_key: WireKeyReference | None = None


class WireComponentFile(Wire, frozen=True):
    path: str
    content: WireFileContent
    mode: str = "0644"
    owner: str = "root:root"
    ownership: Ownership = Ownership.WHOLE
    on_change: WireChangeClass = WireChangeClass.DRAIN


class WireDropIn(Wire, frozen=True):
    name: str
    content: str


class WireComponentUnit(Wire, frozen=True):
    name: str
    enabled: bool = True
    state: UnitState = UnitState.ACTIVE
    drop_ins: list[WireDropIn] = []
    on_change: WireChangeClass = WireChangeClass.RESTART


class WireDisruptions(Wire, frozen=True):
    install: WireChangeClass = WireChangeClass.DRAIN
    major: WireChangeClass = WireChangeClass.DRAIN
    minor: WireChangeClass = WireChangeClass.DRAIN
    patch: WireChangeClass = WireChangeClass.DRAIN
    uninstall: WireChangeClass = WireChangeClass.DRAIN


class WireConditionWanted(Wire, frozen=True):
    type: str
    status: str = "True"


class WireHealthCheck(Wire, frozen=True):
    """A health check. `type` names the one field that is set."""

    name: str
    type: str
    unit: str | None = None
    exec: list[str] | None = None
    http: str | None = None
    tcp: str | None = None
    node_condition: WireConditionWanted | None = None
    interval: str = "10s"
    timeout: str = "10s"
    successes: int = 3
    failures: int = 3

    @property
    def interval_seconds(self) -> float:
        return seconds(self.interval)

    @property
    def timeout_seconds(self) -> float:
        return seconds(self.timeout)


class WireHook(Wire, frozen=True):
    run: list[str]
    check: list[str] | None = None
    timeout: str = "5m"

    @property
    def timeout_seconds(self) -> float:
        return seconds(self.timeout)


class WireHooks(Wire, frozen=True):
    prepare: WireHook | None = None
    apply: WireHook | None = None
    config: WireHook | None = None
    post: WireHook | None = None
    remove: WireHook | None = None


class WireUninstall(Wire, frozen=True):
    purge_files: bool = True
    keep_data: list[str] = []


class WireUndo(Wire, frozen=True):
    mode: WireUndoMode = WireUndoMode.AUTO
    on_unhealthy: bool = True


class ComponentSpec(Wire, frozen=True):
    """`spec` of a MachineComponent."""

    component: str
    version: str
    source: WireComponentSource
    requires: WireRequires = msgspec.field(default_factory=WireRequires)
    depends_on: list[WireDependsOn] = []
    files: list[WireComponentFile] = []
    units: list[WireComponentUnit] = []
    disruption: WireDisruptions = msgspec.field(default_factory=WireDisruptions)
    health: list[WireHealthCheck] = []
    health_deadline: str = "5m"
    reboot_timeout: str = "10m"
    hooks: WireHooks = msgspec.field(default_factory=WireHooks)
    uninstall: WireUninstall = msgspec.field(default_factory=WireUninstall)
    undo: WireUndo = msgspec.field(default_factory=WireUndo)

    @property
    def health_seconds(self) -> float:
        return seconds(self.health_deadline)

    @property
    def reboot_seconds(self) -> float:
        return seconds(self.reboot_timeout)


class WireMachineMetadata(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    deletion_timestamp: datetime | None = None


class Component(Wire, frozen=True):
    """A MachineComponent."""

    metadata: WireMachineMetadata
    spec: ComponentSpec


# -- Machine --------------------------------------------------------------------------------------


class Assigned(Wire, frozen=True):
    """An entry of `spec.components` of a Machine."""

    name: str
    component: str
    revision: str
    config_hash: str
    set: str = ""
    values: dict[str, str] = {}
    desired_state: str = WireDesiredState.RUNNING.value
    attempt: int = 1
    batch: int = 0


class WireMachinePermit(Wire, frozen=True):
    name: str
    components: list[str]
    max_disruption: str
    start_before: datetime
    renewed_until: datetime | None = None

    @property
    def last_start(self) -> datetime:
        """Return the time until which an act of a change that has begun may start."""
        return max(self.start_before, self.renewed_until or self.start_before)


class WireTaint(Wire, frozen=True):
    key: str
    effect: str
    value: str = ""


class WireNodeTemplate(Wire, frozen=True):
    labels: dict[str, str] = {}
    taints: list[WireTaint] = []


class WireMachineSpec(Wire, frozen=True):
    origin: str = "Import"
    node: str = "Expected"
    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    node_template: WireNodeTemplate = WireNodeTemplate()
    addresses: list[str] = []
    failure_domain: str = ""
    mode: str = "Manage"
    components: list[Assigned] = []
    permit: WireMachinePermit | None = None


class WireMachineHost(Wire, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")
    os: str = ""
    kernel: str = ""
    arch: str = ""


class WireDrift(Wire, frozen=True):
    """A difference between assignment and host.

    count: how often it was corrected, plus one for the present difference
    """

    kind: str
    path: str = ""
    count: int = 1
    since: datetime | None = None


class Previous(Wire, frozen=True):
    component: str
    config_hash: str = ""


class WireComponentStatus(Wire, frozen=True):
    """An entry of `status.components` of a Machine. kubenode.api lists the values of its enums."""

    name: str
    revision: str = ""
    attempt: int = 0
    version: str = ""
    config_hash: str = ""
    run_state: str = "Unknown"
    state: str = "Pending"
    previous: Previous | None = None
    staged_at: datetime | None = None
    needs: str | None = None
    drift: list[WireDrift] = []
    reason: str = ""
    message: str = ""


class WireMachineStatus(Wire, frozen=True):
    host: WireMachineHost | None = None
    components: list[WireComponentStatus] = []


class WireMachine(Wire, frozen=True):
    """The part of a Machine that concerns its components."""

    metadata: WireMachineMetadata
    spec: WireMachineSpec
    status: WireMachineStatus = msgspec.field(default_factory=WireMachineStatus)


def spec_of(plain: Mapping[str, Any]) -> ComponentSpec:
    """Convert `spec` of a MachineComponent from JSON values. Raises msgspec.ValidationError."""
    return msgspec.convert(_without_nulls(plain), ComponentSpec)


def machine_of(plain: Mapping[str, Any]) -> WireMachine:
    """Convert a Machine from plain JSON values. Raises msgspec.ValidationError."""
    return msgspec.convert(_without_nulls(plain), WireMachine)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value
