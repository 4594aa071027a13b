"""What a component consists of on a host: where it comes from, its files, units and checks."""

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
"""Characters of one file within a MachineComponent."""

Path = Annotated[str, StringConstraints(min_length=2, max_length=1024, pattern=ABSOLUTE)]
Argv = Annotated[
    list[Annotated[str, StringConstraints(max_length=4096)]], Field(min_length=1, max_length=64)
]
"""A program and its arguments; no shell reads it."""
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
    name: PackageName
    version: PackageVersion
    """Exactly, as the package manager writes it."""


class Packages(Model):
    packages: list[Package] = Field(min_length=1, max_length=32)
    hold: StrictBool = True
    """Whether the package manager is told to leave them alone."""
    lock_wait: Duration = timedelta(minutes=5)


class ArtefactAllowance(StrEnum):
    """LINKS_OUT    symbolic links that lead out of `dest`
    SET_USER_ID  programs with the set-user-ID or set-group-ID bit
    """

    LINKS_OUT = "LinksOut"
    SET_USER_ID = "SetUserID"


class Tarball(Model):
    url: str = Field(min_length=8, max_length=2048, pattern=r"^(https?|file)://\S+$")
    sha256: str = Field(max_length=64, pattern=SHA256)
    dest: Path
    allow: list[ArtefactAllowance] = Field(default_factory=list, max_length=2)
    """What is refused in an artefact unless it stands here."""


class Oci(Model):
    ref: str = Field(max_length=1024, pattern=DIGEST)
    """With its digest: `registry/repository@sha256:...`."""
    dest: Path
    allow: list[ArtefactAllowance] = Field(default_factory=list, max_length=2)
    """What is refused in an artefact unless it stands here."""


class Script(Model):
    """Programs of the host or of this component's files. `detect` prints the installed version."""

    detect: Argv
    install: Argv
    uninstall: Argv


_SOURCE_RULE = CelRule(
    " && ".join(f"(self.type == '{t}') == has(self.{t})" for t in SourceType),
    "type says one source and the fields another: fill in the field named like the type alone",
)


class ComponentSource(Model):
    type: SourceType
    apt: Packages | None = None
    dnf: Packages | None = None
    tarball: Tarball | None = None
    oci: Oci | None = None
    script: Script | None = None

    cel: ClassVar[tuple[CelRule, ...]] = (_SOURCE_RULE,)

    @model_validator(mode="after")
    def _check_source(self) -> "ComponentSource":
        if any((self.type is t) != (getattr(self, t.value) is not None) for t in SourceType):
            raise _SOURCE_RULE.broken()
        return self


class KeyReference(Model):
    """A key of a ConfigMap or Secret of namespace kubenode-components."""

    name: str = Field(min_length=1, max_length=253)
    key: str = Field(min_length=1, max_length=253)


_CONTENT_RULE = CelRule(
    "[has(self.inline), has(self.configMapKey), has(self.secretKey)].filter(x, x).size() == 1",
    "content comes from one place: write inline, configMapKey or secretKey",
)


class FileContent(Model):
    """`${values.NAME}` and `${machine.NAME}` in it are replaced; `$${` stands for `${`."""

    inline: str | None = Field(default=None, max_length=LARGEST_INLINE)
    config_map_key: KeyReference | None = None
    secret_key: KeyReference | None = None

    cel: ClassVar[tuple[CelRule, ...]] = (_CONTENT_RULE,)

    @model_validator(mode="after")
    def _check_content(self) -> "FileContent":
        if [self.inline, self.config_map_key, self.secret_key].count(None) != 2:
            raise _CONTENT_RULE.broken()
        return self


class FileOwnership(StrEnum):
    """WHOLE  the file is ours; KEYS  of a JSON, TOML, YAML or INI file, the keys that we write."""

    WHOLE = "Whole"
    KEYS = "Keys"


class ComponentFile(Model):
    path: Path
    mode: str = Field(default="0644", max_length=4, pattern=MODE)
    owner: str = Field(default="root:root", max_length=65, pattern=OWNER)
    content: FileContent
    ownership: FileOwnership = FileOwnership.WHOLE
    on_change: ChangeClass = ChangeClass.DRAIN


class UnitDesired(StrEnum):
    ACTIVE = "Active"
    INACTIVE = "Inactive"
    MASKED = "Masked"


class DropIn(Model):
    name: str = Field(min_length=6, max_length=128, pattern=r"^[A-Za-z0-9._-]+\.conf$")
    content: str = Field(max_length=LARGEST_INLINE)


class ComponentUnit(Model):
    name: str = Field(max_length=255, pattern=UNIT)
    enabled: StrictBool = True
    state: UnitDesired = UnitDesired.ACTIVE
    drop_ins: list[DropIn] = Field(default_factory=list, max_length=16)
    on_change: ChangeClass = ChangeClass.RESTART


class Disruptions(Model):
    """How much a step between versions disturbs the host."""

    install: ChangeClass = ChangeClass.DRAIN
    major: ChangeClass = ChangeClass.DRAIN
    minor: ChangeClass = ChangeClass.DRAIN
    patch: ChangeClass = ChangeClass.DRAIN
    uninstall: ChangeClass = ChangeClass.DRAIN


class HealthType(StrEnum):
    UNIT = "unit"
    EXEC = "exec"
    HTTP = "http"
    TCP = "tcp"
    NODE_CONDITION = "nodeCondition"


class ConditionWanted(Model):
    type: str = Field(min_length=1, max_length=316)
    status: ConditionStatus = ConditionStatus.TRUE


_HEALTH_CHECK_RULE = CelRule(
    " && ".join(f"(self.type == '{t}') == has(self.{t})" for t in HealthType),
    "type says one check and the fields another: fill in the field named like the type alone",
)


class HealthCheck(Model):
    name: str = Field(min_length=1, max_length=63)
    type: HealthType
    unit: str | None = Field(default=None, max_length=255, pattern=UNIT)
    """This unit is active."""
    exec: Argv | None = None
    """This program ends with 0."""
    http: str | None = Field(default=None, max_length=2048, pattern=r"^https?://\S+$")
    """This address answers 2xx."""
    tcp: str | None = Field(default=None, max_length=300, pattern=r"^\S+:[0-9]{1,5}$")
    """This HOST:PORT takes a connection."""
    node_condition: ConditionWanted | None = None
    """Judged by the Machine operator."""
    interval: Duration = timedelta(seconds=10)
    timeout: Duration = timedelta(seconds=10)
    successes: StrictInt = Field(default=3, ge=1, le=100)
    failures: StrictInt = Field(default=3, ge=1, le=100)

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
    """`check` runs first (where it passes, `run` is left out) and again after `run`."""

    run: Argv
    check: Argv | None = None
    timeout: Duration = timedelta(minutes=5)


class Hooks(Model):
    """Around the steps on the host. Only programs of the host or of this component's files."""

    prepare: Hook | None = None
    apply: Hook | None = None
    config: Hook | None = None
    post: Hook | None = None
    remove: Hook | None = None


class Uninstall(Model):
    purge_files: StrictBool = True
    keep_data: list[Path] = Field(default_factory=list, max_length=32)


class UndoMode(StrEnum):
    AUTO = "Auto"
    SCRIPT = "Script"
    NONE = "None"


class Undo(Model):
    mode: UndoMode = UndoMode.AUTO
    on_unhealthy: StrictBool = True
    """Whether a new version that does not get healthy is taken back."""
