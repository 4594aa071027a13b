"""Content of a component on a host: its source, files, systemd units and health checks."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator

from kubenode.api.base import CelRule, Model
from kubenode.api.duration import Duration
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machinework import ChangeClass

ABSOLUTE = r"^/[^\x00]*$"
SHA256 = "^[0-9a-f]{64}$"
DIGEST = r"^[^\s@]+@sha256:[0-9a-f]{64}$"
MODE = "^0[0-7]{3}$"
OWNER = r"^[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$"
UNIT = r"^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer|mount|path|target|slice)$"
LARGEST_INLINE = 65536
"""Maximum number of characters of one file within a MachineComponent."""

Path = Annotated[str, StringConstraints(min_length=2, max_length=1024, pattern=ABSOLUTE)]
Argv = Annotated[
    list[Annotated[str, StringConstraints(max_length=4096)]], Field(min_length=1, max_length=64)
]
"""Program and its arguments. No shell interprets them."""
PackageName = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern="^[A-Za-z0-9][A-Za-z0-9+._-]*$")
]
PackageVersion = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9.+~:^_-]*$"),
]


class SourceType(StrEnum):
    APT = "apt"
    DNF = "dnf"
    TARBALL = "tarball"
    OCI = "oci"
    SCRIPT = "script"


class Package(Model):
    """Package of the operating system."""

    name: PackageName
    """Name of the package."""
    version: PackageVersion
    """Exact version, in the notation of the package manager."""


class Packages(Model):
    """Packages of the operating system."""

    packages: list[Package] = Field(min_length=1, max_length=32)
    """Packages to install."""
    hold: StrictBool = True
    """Whether to exclude the packages from upgrades by the package manager."""
    lock_wait: Duration = timedelta(minutes=5)
    """Maximum time to wait for the lock of the package manager."""


class ArtefactAllowance(StrEnum):
    """Content that an artefact may contain.

    LinksOut: symbolic links that lead out of `dest`. SetUserID: programs with the set-user-ID or
    set-group-ID bit.
    """

    LINKS_OUT = "LinksOut"
    SET_USER_ID = "SetUserID"


class Tarball(Model):
    """Archive that the agent downloads and extracts."""

    url: str = Field(min_length=8, max_length=2048, pattern=r"^(https?|file)://\S+$")
    """URL of the archive."""
    sha256: str = Field(max_length=64, pattern=SHA256)
    """SHA-256 digest of the archive, in hexadecimal."""
    dest: Path
    """Absolute path of the directory to extract to."""
    allow: list[ArtefactAllowance] = Field(default_factory=list, max_length=2)
    """Content that is denied unless listed here."""


class Oci(Model):
    """OCI artefact that the agent pulls and extracts."""

    ref: str = Field(max_length=1024, pattern=DIGEST)
    """Reference with digest: `registry/repository@sha256:...`."""
    dest: Path
    """Absolute path of the directory to extract to."""
    allow: list[ArtefactAllowance] = Field(default_factory=list, max_length=2)
    """Content that is denied unless listed here."""


class Script(Model):
    """Programs of the host or of the files of this component."""

    detect: Argv
    """Program that prints the installed version."""
    install: Argv
    """Program that installs the component."""
    uninstall: Argv
    """Program that removes the component."""


_SOURCE_RULE = CelRule(
    " && ".join(f"(self.type == '{t}') == has(self.{t})" for t in SourceType),
    "type says one source and the fields another: fill in the field named like the type alone",
)


class ComponentSource(Model):
    """Source of the component."""

    type: SourceType
    """Type of the source. The field with this name contains its settings."""
    apt: Packages | None = None
    """Debian packages."""
    dnf: Packages | None = None
    """RPM packages."""
    tarball: Tarball | None = None
    """Archive to download."""
    oci: Oci | None = None
    """OCI artefact to pull."""
    script: Script | None = None
    """Programs that install the component."""

    cel: ClassVar[tuple[CelRule, ...]] = (_SOURCE_RULE,)

    @model_validator(mode="after")
    def _check_source(self) -> "ComponentSource":
        if any((self.type is t) != (getattr(self, t.value) is not None) for t in SourceType):
            raise _SOURCE_RULE.broken()
        return self


class KeyReference(Model):
    """Key of a ConfigMap or Secret in the namespace kubenode-components."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the ConfigMap or Secret."""
    key: str = Field(min_length=1, max_length=253)
    """Name of the key."""


_CONTENT_RULE = CelRule(
    "[has(self.inline), has(self.configMapKey), has(self.secretKey)].filter(x, x).size() == 1",
    "content comes from one place: write inline, configMapKey or secretKey",
)


class FileContent(Model):
    """Content of a file. `${values.NAME}` and `${machine.NAME}` are expanded; `$${` is an escaped
    `${`."""

    inline: str | None = Field(default=None, max_length=LARGEST_INLINE)
    """Content as text."""
    config_map_key: KeyReference | None = None
    """Key of a ConfigMap that contains the text."""
    secret_key: KeyReference | None = None
    """Key of a Secret that contains the text."""

    cel: ClassVar[tuple[CelRule, ...]] = (_CONTENT_RULE,)

    @model_validator(mode="after")
    def _check_content(self) -> "FileContent":
        if [self.inline, self.config_map_key, self.secret_key].count(None) != 2:
            raise _CONTENT_RULE.broken()
        return self


class FileOwnership(StrEnum):
    """Whole: the component owns the file. Keys: it owns the keys that it writes, in a JSON, TOML,
    YAML or INI file."""

    WHOLE = "Whole"
    KEYS = "Keys"


class ComponentFile(Model):
    """File on the host."""

    path: Path
    """Absolute path of the file."""
    mode: str = Field(default="0644", max_length=4, pattern=MODE)
    """File mode in octal notation."""
    owner: str = Field(default="root:root", max_length=65, pattern=OWNER)
    """Owner and group of the file, as `USER:GROUP`."""
    content: FileContent
    """Content of the file."""
    ownership: FileOwnership = FileOwnership.WHOLE
    """Whether the component owns the whole file or only its keys in it."""
    on_change: ChangeClass = ChangeClass.DRAIN
    """Disruption that a change of the file causes."""


class UnitDesired(StrEnum):
    ACTIVE = "Active"
    INACTIVE = "Inactive"
    MASKED = "Masked"


class DropIn(Model):
    """Drop-in file of a systemd unit."""

    name: str = Field(min_length=6, max_length=128, pattern=r"^[A-Za-z0-9._-]+\.conf$")
    """Name of the file, with the suffix `.conf`."""
    content: str = Field(max_length=LARGEST_INLINE)
    """Content of the file."""


class ComponentUnit(Model):
    """systemd unit on the host."""

    name: str = Field(max_length=255, pattern=UNIT)
    """Name of the unit with its suffix."""
    enabled: StrictBool = True
    """Whether the unit starts at boot."""
    state: UnitDesired = UnitDesired.ACTIVE
    """Desired state of the unit."""
    drop_ins: list[DropIn] = Field(default_factory=list, max_length=16)
    """Drop-in files of the unit."""
    on_change: ChangeClass = ChangeClass.RESTART
    """Disruption that a change of the unit causes."""


class Disruptions(Model):
    """Disruption of the host by each kind of version change."""

    install: ChangeClass = ChangeClass.DRAIN
    """Disruption by the first installation."""
    major: ChangeClass = ChangeClass.DRAIN
    """Disruption by a new major version."""
    minor: ChangeClass = ChangeClass.DRAIN
    """Disruption by a new minor version."""
    patch: ChangeClass = ChangeClass.DRAIN
    """Disruption by a new patch version."""
    uninstall: ChangeClass = ChangeClass.DRAIN
    """Disruption by the removal."""


class HealthType(StrEnum):
    UNIT = "unit"
    EXEC = "exec"
    HTTP = "http"
    TCP = "tcp"
    NODE_CONDITION = "nodeCondition"


class ConditionWanted(Model):
    """Required condition of the Node."""

    type: str = Field(min_length=1, max_length=316)
    """Type of the condition."""
    status: ConditionStatus = ConditionStatus.TRUE
    """Required status of the condition."""


_HEALTH_CHECK_RULE = CelRule(
    " && ".join(f"(self.type == '{t}') == has(self.{t})" for t in HealthType),
    "type says one check and the fields another: fill in the field named like the type alone",
)


class HealthCheck(Model):
    """Health check of the component."""

    name: str = Field(min_length=1, max_length=63)
    """Name of the check."""
    type: HealthType
    """Type of the check. The field with this name contains its settings."""
    unit: str | None = Field(default=None, max_length=255, pattern=UNIT)
    """Name of a systemd unit that must be active."""
    exec: Argv | None = None
    """Program that must exit with code 0."""
    http: str | None = Field(default=None, max_length=2048, pattern=r"^https?://\S+$")
    """URL that must respond with a 2xx status."""
    tcp: str | None = Field(default=None, max_length=300, pattern=r"^\S+:[0-9]{1,5}$")
    """HOST:PORT that must accept a connection."""
    node_condition: ConditionWanted | None = None
    """Required condition of the Node. The Machine operator evaluates it."""
    interval: Duration = timedelta(seconds=10)
    """Time between two checks."""
    timeout: Duration = timedelta(seconds=10)
    """Maximum duration of one check."""
    successes: StrictInt = Field(default=3, ge=1, le=100)
    """Number of consecutive successes after which the component is healthy."""
    failures: StrictInt = Field(default=3, ge=1, le=100)
    """Number of consecutive failures after which the component is unhealthy."""

    cel: ClassVar[tuple[CelRule, ...]] = (_HEALTH_CHECK_RULE,)

    @model_validator(mode="after")
    def _check_type(self) -> "HealthCheck":
        given = {
            HealthType.UNIT: self.unit,
            HealthType.EXEC: self.exec,
            HealthType.HTTP: self.http,
            HealthType.TCP: self.tcp,
            HealthType.NODE_CONDITION: self.node_condition,
        }
        if any((self.type is t) != (value is not None) for t, value in given.items()):
            raise _HEALTH_CHECK_RULE.broken()
        return self


class Hook(Model):
    """Program that runs during a change. If `check` succeeds beforehand, `run` is skipped.
    Otherwise `check` runs again after `run`."""

    run: Argv
    """Program to run."""
    check: Argv | None = None
    """Program that exits with code 0 if `run` is not needed or has succeeded."""
    timeout: Duration = timedelta(minutes=5)
    """Maximum duration of each program."""


class Hooks(Model):
    """Programs of the host or of the files of this component that run during a change."""

    prepare: Hook | None = None
    """Program to run before the software changes."""
    apply: Hook | None = None
    """Program to run after the software has changed."""
    config: Hook | None = None
    """Program to run after files and units have changed."""
    post: Hook | None = None
    """Program to run at the end of the change."""
    remove: Hook | None = None
    """Program to run before the component is removed."""


class Uninstall(Model):
    """Removal of the component."""

    purge_files: StrictBool = True
    """Whether to delete the files of the component."""
    keep_data: list[Path] = Field(default_factory=list, max_length=32)
    """Absolute paths to keep."""


class UndoMode(StrEnum):
    AUTO = "Auto"
    SCRIPT = "Script"
    NONE = "None"


class Undo(Model):
    """Return to the previous version after a failure."""

    mode: UndoMode = UndoMode.AUTO
    """Method of the return."""
    on_unhealthy: StrictBool = True
    """Whether to undo a change if the new version does not become healthy."""
