"""MachineComponents and what a Machine says of them, by msgspec: only the fields that are read.

Defaults are those of the API. A default that is written out equals one that is left out, also in
the hashes, so that a newer operator which adds a field rolls nothing. Words of the API that a
newer one may add to are plain text in a Machine, whose other components must go on.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from kubenode.runtime.duration import seconds


class ChangeClass(StrEnum):
    """How much a change disturbs its host, mildest first."""

    NONE = "None"
    RELOAD = "Reload"
    RESTART = "Restart"
    DRAIN = "Drain"
    REBOOT = "Reboot"

    @property
    def weight(self) -> int:
        return _WEIGHTS[self]


_WEIGHTS = {class_: weight for weight, class_ in enumerate(ChangeClass)}


class DesiredState(StrEnum):
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


class UndoMode(StrEnum):
    AUTO = "Auto"
    SCRIPT = "Script"
    NONE = "None"


class Wire(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """Base: camelCase names, unknown fields skipped, defaults not written."""


# -- MachineComponent -----------------------------------------------------------------------------


class Requires(Wire, frozen=True):
    os: list[str] = []
    arch: list[str] = []
    api_server: str = ""
    kernel: str = ""


class DependsOn(Wire, frozen=True):
    component: str
    version: str = ""


class Package(Wire, frozen=True):
    name: str
    version: str


class Packages(Wire, frozen=True):
    packages: list[Package]
    hold: bool = True
    lock_wait: str = "5m"

    @property
    def lock_wait_seconds(self) -> float:
        return seconds(self.lock_wait)


class Tarball(Wire, frozen=True):
    url: str
    sha256: str
    dest: str
    allow: list[str] = []


class Oci(Wire, frozen=True):
    ref: str
    dest: str
    allow: list[str] = []


class Script(Wire, frozen=True):
    detect: list[str]
    install: list[str]
    uninstall: list[str]


class ComponentSource(Wire, frozen=True):
    """`type` names the one field that is filled in."""

    type: str
    apt: Packages | None = None
    dnf: Packages | None = None
    tarball: Tarball | None = None
    oci: Oci | None = None
    script: Script | None = None


class KeyReference(Wire, frozen=True):
    name: str
    key: str


class FileContent(Wire, frozen=True):
    inline: str | None = None
    config_map_key: KeyReference | None = None
    secret_key: KeyReference | None = None


class ComponentFile(Wire, frozen=True):
    path: str
    content: FileContent
    mode: str = "0644"
    owner: str = "root:root"
    ownership: Ownership = Ownership.WHOLE
    on_change: ChangeClass = ChangeClass.DRAIN


class DropIn(Wire, frozen=True):
    name: str
    content: str


class ComponentUnit(Wire, frozen=True):
    name: str
    enabled: bool = True
    state: UnitState = UnitState.ACTIVE
    drop_ins: list[DropIn] = []
    on_change: ChangeClass = ChangeClass.RESTART


class Disruptions(Wire, frozen=True):
    install: ChangeClass = ChangeClass.DRAIN
    major: ChangeClass = ChangeClass.DRAIN
    minor: ChangeClass = ChangeClass.DRAIN
    patch: ChangeClass = ChangeClass.DRAIN
    uninstall: ChangeClass = ChangeClass.DRAIN


class ConditionWanted(Wire, frozen=True):
    type: str
    status: str = "True"


class HealthCheck(Wire, frozen=True):
    """`type` names the one field that is filled in."""

    name: str
    type: str
    unit: str | None = None
    exec: list[str] | None = None
    http: str | None = None
    tcp: str | None = None
    node_condition: ConditionWanted | None = None
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


class Hook(Wire, frozen=True):
    run: list[str]
    check: list[str] | None = None
    timeout: str = "5m"

    @property
    def timeout_seconds(self) -> float:
        return seconds(self.timeout)


class Hooks(Wire, frozen=True):
    prepare: Hook | None = None
    apply: Hook | None = None
    config: Hook | None = None
    post: Hook | None = None
    remove: Hook | None = None


class Uninstall(Wire, frozen=True):
    purge_files: bool = True
    keep_data: list[str] = []


class Undo(Wire, frozen=True):
    mode: UndoMode = UndoMode.AUTO
    on_unhealthy: bool = True


class ComponentSpec(Wire, frozen=True):
    """`spec` of a MachineComponent."""

    component: str
    version: str
    source: ComponentSource
    requires: Requires = msgspec.field(default_factory=Requires)
    depends_on: list[DependsOn] = []
    files: list[ComponentFile] = []
    units: list[ComponentUnit] = []
    disruption: Disruptions = msgspec.field(default_factory=Disruptions)
    health: list[HealthCheck] = []
    health_deadline: str = "5m"
    reboot_timeout: str = "10m"
    hooks: Hooks = msgspec.field(default_factory=Hooks)
    uninstall: Uninstall = msgspec.field(default_factory=Uninstall)
    undo: Undo = msgspec.field(default_factory=Undo)

    @property
    def health_seconds(self) -> float:
        return seconds(self.health_deadline)

    @property
    def reboot_seconds(self) -> float:
        return seconds(self.reboot_timeout)


class Metadata(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    deletion_timestamp: datetime | None = None


class Component(Wire, frozen=True):
    """A MachineComponent."""

    metadata: Metadata
    spec: ComponentSpec


# -- Machine --------------------------------------------------------------------------------------


class Assigned(Wire, frozen=True):
    """One of `spec.components` of a Machine."""

    name: str
    component: str
    revision: str
    config_hash: str
    set: str = ""
    values: dict[str, str] = {}
    desired_state: str = DesiredState.RUNNING.value
    attempt: int = 1
    batch: int = 0


class MachinePermit(Wire, frozen=True):
    name: str
    components: list[str]
    max_disruption: str
    start_before: datetime
    renewed_until: datetime | None = None

    @property
    def last_start(self) -> datetime:
        """Until when an act of a change that has begun may start."""
        return max(self.start_before, self.renewed_until or self.start_before)


class MachineSpec(Wire, frozen=True):
    node_name: str = ""
    addresses: list[str] = []
    failure_domain: str = ""
    mode: str = "Manage"
    components: list[Assigned] = []
    permit: MachinePermit | None = None


class MachineHost(Wire, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")
    os: str = ""
    kernel: str = ""
    arch: str = ""


class Drift(Wire, frozen=True):
    """`count`: how often it was put right, and once more for now."""

    kind: str
    path: str = ""
    count: int = 1
    since: datetime | None = None


class Previous(Wire, frozen=True):
    component: str
    config_hash: str = ""


class ComponentStatus(Wire, frozen=True):
    """One of `status.components` of a Machine; see kubenode.api for the words."""

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
    drift: list[Drift] = []
    reason: str = ""
    message: str = ""


class MachineStatus(Wire, frozen=True):
    host: MachineHost | None = None
    components: list[ComponentStatus] = []


class Machine(Wire, frozen=True):
    """A Machine, as far as its components go."""

    metadata: Metadata
    spec: MachineSpec
    status: MachineStatus = msgspec.field(default_factory=MachineStatus)


def spec_of(plain: Mapping[str, Any]) -> ComponentSpec:
    """`spec` of a MachineComponent as JSON has it. Raises msgspec.ValidationError."""
    return msgspec.convert(_without_nulls(plain), ComponentSpec)


def machine_of(plain: Mapping[str, Any]) -> Machine:
    """A Machine as JSON has it. Raises msgspec.ValidationError."""
    return msgspec.convert(_without_nulls(plain), Machine)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value
