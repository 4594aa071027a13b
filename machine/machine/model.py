"""What is known of one Machine when it is decided what to do next. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from kubenode.api.meta import Condition
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import REISSUE, MachineMode, MachineOrigin
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.providers.instances import ErrorCode, Instance
from kubenode.runtime.kube.objects import Node
from machine.disruption.port import Prepared

FINALIZER = "kubenode.io/machine"
"""On Machines that we made something for: it stays until that is gone."""
IMPORT_TIMEOUT = timedelta(seconds=1200)
CREATE_TIMEOUT = timedelta(minutes=15)
"""Where the class is not there to say."""
NODE_STARTUP_TIMEOUT = timedelta(minutes=20)
"""Likewise."""
RESYNC = timedelta(seconds=450)
"""Between two looks at an instance that runs."""
SOON = timedelta(seconds=10)
"""Between two looks at something that is under way elsewhere."""
LOST_ANSWER = timedelta(seconds=60)
"""For how long a provider may miss an instance that it has just made."""
PRE_DRAIN, PRE_TERMINATE = "pre-drain-", "pre-terminate-"
"""Annotations `kubenode.io/pre-drain-<x>`: somebody has to take them off first."""


class Starting(StrEnum):
    """Reasons of condition Healthy that are remembered: what a Machine has come through.

    WAITING  its host has not come yet, since the condition's last transition
    JOINED   it came, and is not whole yet
    TIMEOUT  it did not come in time
    """

    WAITING = "Starting"
    JOINED = "Initializing"
    TIMEOUT = "StartupTimeout"


class InstanceRequestState(StrEnum):
    """What its provider said when asked for the instance.

    NOT     it was not asked: it is not its turn, or there is nothing to ask for
    ABSENT  it knows none
    ERROR   it gave no answer, or refused what was asked of it
    """

    NOT = "Not"
    FOUND = "Found"
    ABSENT = "Absent"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class InstanceSeen:
    """instance  of FOUND
    code, told   of ERROR, in the provider's words
    final        no further try can help
    again        when it is to be asked again
    """

    asked: InstanceRequestState = InstanceRequestState.NOT
    instance: Instance | None = None
    code: ErrorCode = ErrorCode.OK
    told: str = ""
    final: bool = False
    again: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ClassSeen:
    """As its MachineClass says; `hash` "" while nobody has worked it out."""

    hash: str = ""
    create_timeout: timedelta = CREATE_TIMEOUT
    node_startup_timeout: timedelta = NODE_STARTUP_TIMEOUT


class MachineAct(StrEnum):
    """One act of ours on the world outside the Machine's status."""

    NONE = "None"
    ADD_FINALIZER = "AddFinalizer"
    CREATE = "Create"
    ADOPT = "Adopt"
    """Write the instance's ID into the spec, and the addresses that its certificates may have."""
    SYNC = "Sync"
    OPERATE = "Operate"
    REPLACE = "Replace"
    """Delete the Machine: its set makes another."""
    PREPARE = "Prepare"
    UNINSTALL = "Uninstall"
    TERMINATE = "Terminate"
    DELETE_NODE = "DeleteNode"
    RELEASE = "Release"
    """Take off its Node what is ours."""
    END = "End"
    REMOVE_FINALIZER = "RemoveFinalizer"


@dataclass(frozen=True, slots=True)
class ActResult:
    """What came of the act before, in the same run.

    prepared    of PREPARE, by whatever act it is followed
    code, told  of what a provider was asked: OK when it was taken
    final       whether no further try can help
    done        of END: nothing of ours is left at the node
    """

    act: MachineAct = MachineAct.NONE
    prepared: Prepared | None = None
    code: ErrorCode = ErrorCode.OK
    told: str = ""
    final: bool = False
    done: bool = False
    again: timedelta | None = None


@dataclass(frozen=True, slots=True)
class MachineObservation:
    """class_       None: its MachineClass is not there, or it is imported
    node        that it speaks of; None: there is none
    conflict    why that Node is not this Machine's, "" if it is
    missing     component sets that select it and have not given it their component yet
    held        open job that has its node, "" for none
    frozen      why nothing may be deleted now, "" if it may
    fighting    label or taint keys that another writer keeps changing
    tokened     whether the bootstrap token that a new instance is given can be read
    owned       whether a set makes another in its place
    unsure      whether it is not known yet if its agent lives
    volumes     attached to its node; None: not looked
    """

    now: datetime
    machine: Machine
    class_: ClassSeen | None = None
    node: Node | None = None
    conflict: str = ""
    missing: tuple[str, ...] = ()
    instance: InstanceSeen = field(default_factory=InstanceSeen)
    held: str = ""
    frozen: str = ""
    fighting: tuple[str, ...] = ()
    tokened: bool = False
    owned: bool = False
    unsure: bool = False
    volumes: int | None = None
    heard: ActResult = field(default_factory=ActResult)

    @property
    def provision(self) -> bool:
        return self.machine.spec.origin is MachineOrigin.PROVISION

    @property
    def manages(self) -> bool:
        return self.machine.spec.mode is MachineMode.MANAGE

    @property
    def expects_node(self) -> bool:
        return self.machine.spec.node == "Expected"

    @property
    def deleting(self) -> bool:
        return self.machine.metadata.deletion_timestamp is not None

    @property
    def finalizer(self) -> bool:
        return FINALIZER in self.machine.metadata.finalizers

    @property
    def token(self) -> str:
        """The client token that is written down, "" for none."""
        provisioning = self.machine.status.provisioning
        return "" if provisioning is None else provisioning.client_token

    def known(self, type_: MachineConditionType) -> Condition | None:
        return self.machine.status.condition(type_)

    def reason(self, type_: MachineConditionType) -> str:
        known = self.known(type_)
        return "" if known is None else known.reason

    @property
    def joined(self) -> bool:
        """Whether its host came once: remembered by the reason of Healthy."""
        reason = self.reason(MachineConditionType.HEALTHY)
        return reason not in ("", Starting.WAITING, Starting.TIMEOUT)

    @property
    def gave_up(self) -> bool:
        """Whether it waited for its host in vain."""
        return self.reason(MachineConditionType.HEALTHY) == Starting.TIMEOUT

    @property
    def asked_anew(self) -> bool:
        """Whether a person wanted its host let in since it gave up. What is no time says nothing:
        it would be wanted for ever."""
        known = self.known(MachineConditionType.HEALTHY)
        try:
            asked = datetime.fromisoformat(self.machine.metadata.annotations.get(REISSUE, ""))
        except ValueError:
            return False
        if known is None or asked.tzinfo is None:
            return False
        return asked > known.last_transition_time

    def hooks(self, kind: str) -> tuple[str, ...]:
        """Names of the annotations that hold it back."""
        prefix = f"kubenode.io/{kind}"
        return tuple(sorted(a for a in self.machine.metadata.annotations if a.startswith(prefix)))


@dataclass(frozen=True, slots=True)
class MachineStep:
    """status  what is to be merged into the Machine's, empty for nothing
    act     to be done when the status is written
    again   when to look again though nothing changes, None: not
    """

    status: Mapping[str, Any] = field(default_factory=dict)
    act: MachineAct = MachineAct.NONE
    again: timedelta | None = None
