"""Data types for the decisions about one Machine. Pure."""

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
"""Finalizer of Machines for which we made something; it stays until that is removed."""
IMPORT_TIMEOUT = timedelta(seconds=1200)
"""Time for an imported host to join."""
CREATE_TIMEOUT = timedelta(minutes=15)
"""Time to create an instance, if the class is missing."""
NODE_STARTUP_TIMEOUT = timedelta(minutes=20)
"""Time for a provisioned host to join, if the class is missing."""
RESYNC = timedelta(seconds=450)
"""Interval of requests about a running instance."""
SOON = timedelta(seconds=10)
"""Interval of requests about something in progress elsewhere."""
LOST_ANSWER = timedelta(seconds=60)
"""Time for which a provider may not yet find an instance that it has just created."""
PRE_DRAIN, PRE_TERMINATE = "pre-drain-", "pre-terminate-"
"""Prefixes of annotations `kubenode.io/pre-drain-<x>`, which hold deletion until they are removed.
"""


class Starting(StrEnum):
    """Reasons of condition Healthy that record the progress of a Machine.

    WAITING: the host has not joined since the condition's last transition.
    JOINED: the host has joined and is not complete yet.
    TIMEOUT: the host did not join in time.
    """

    WAITING = "Starting"
    JOINED = "Initializing"
    TIMEOUT = "StartupTimeout"


class InstanceRequestState(StrEnum):
    """The provider's answer about an instance.

    NOT: the provider was not asked: it is not time, or there is nothing to ask about.
    PRESENT: the instance exists.
    ABSENT: the provider does not know the instance.
    ERROR: the provider did not answer, or refused the request.
    """

    NOT = "Not"
    PRESENT = "Found"
    ABSENT = "Absent"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class InstanceObservation:
    """The last answer about an instance.

    instance: set for FOUND.
    code, told: the error code and text of the provider, for ERROR.
    final: a retry cannot help.
    again: time until the next request, None if none is planned.
    """

    state: InstanceRequestState = InstanceRequestState.NOT
    instance: Instance | None = None
    code: ErrorCode = ErrorCode.OK
    message: str = ""
    final: bool = False
    again: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ClassValues:
    """Values from the MachineClass. `hash` is "" until its controller has computed it."""

    hash: str = ""
    create_timeout: timedelta = CREATE_TIMEOUT
    node_startup_timeout: timedelta = NODE_STARTUP_TIMEOUT


class MachineAct(StrEnum):
    """One act outside the Machine's status."""

    NONE = "None"
    ADD_FINALIZER = "AddFinalizer"
    CREATE = "Create"
    ADOPT = "Adopt"
    """Write the instance's ID into the spec, and the addresses that its certificates may contain.
    """
    SYNC = "Sync"
    OPERATE = "Operate"
    REPLACE = "Replace"
    """Delete the Machine, so that its set makes another."""
    PREPARE = "Prepare"
    UNINSTALL = "Uninstall"
    TERMINATE = "Terminate"
    DELETE_NODE = "DeleteNode"
    RELEASE = "Release"
    """Remove our labels, taints and annotations from the Node."""
    END = "End"
    REMOVE_FINALIZER = "RemoveFinalizer"


@dataclass(frozen=True, slots=True)
class ActResult:
    """Result of the previous act of the same run.

    prepared: result of PREPARE, kept through later acts.
    code, told: the provider's code and text. OK if it accepted the request.
    final: a retry cannot help.
    done: result of END: nothing of ours is left on the node.
    again: time until the next try, None if there is none.
    """

    act: MachineAct = MachineAct.NONE
    prepared: Prepared | None = None
    code: ErrorCode = ErrorCode.OK
    message: str = ""
    final: bool = False
    done: bool = False
    again: timedelta | None = None


@dataclass(frozen=True, slots=True)
class MachineObservation:
    """What is known of a Machine.

    class_: None if its MachineClass is missing or the Machine is imported.
    node: the Node that it names, None if there is none.
    conflict: why that Node belongs to another machine, "" if it does not.
    missing: component sets that select the Machine and have not assigned their component yet.
    instance: the provider's last answer.
    open_job: the open job that holds its Node, "" for none.
    frozen: why nothing may be deleted now, "" if it may.
    fighting: keys of labels or taints that another writer keeps changing.
    tokened: whether a bootstrap token for a new instance has been issued.
    owned: whether a MachineSet controls the Machine and makes another in its place.
    unsure: whether it is unknown if the agent is alive.
    volumes: volumes attached to the node, None if they were not counted.
    act_result: the result of the previous act.
    """

    now: datetime
    machine: Machine
    class_: ClassValues | None = None
    node: Node | None = None
    conflict: str = ""
    missing: tuple[str, ...] = ()
    instance: InstanceObservation = field(default_factory=InstanceObservation)
    open_job: str = ""
    frozen: str = ""
    fighting: tuple[str, ...] = ()
    tokened: bool = False
    owned: bool = False
    unsure: bool = False
    volumes: int | None = None
    act_result: ActResult = field(default_factory=ActResult)

    @property
    def provision(self) -> bool:
        return self.machine.spec.origin is MachineOrigin.PROVISION

    @property
    def manages(self) -> bool:
        return self.machine.spec.mode is MachineMode.MANAGE

    @property
    def expects_node(self) -> bool:
        return self.machine.expects_node

    @property
    def deleting(self) -> bool:
        return self.machine.metadata.deletion_timestamp is not None

    @property
    def finalizer(self) -> bool:
        return FINALIZER in self.machine.metadata.finalizers

    @property
    def token(self) -> str:
        """The stored client token, "" for none."""
        provisioning = self.machine.status.provisioning
        return "" if provisioning is None else provisioning.client_token

    def known(self, type_: MachineConditionType) -> Condition | None:
        return self.machine.status.condition(type_)

    def reason(self, type_: MachineConditionType) -> str:
        known = self.known(type_)
        return "" if known is None else known.reason

    @property
    def joined(self) -> bool:
        """Whether the host has ever joined, which the reason of Healthy records."""
        reason = self.reason(MachineConditionType.HEALTHY)
        return reason not in ("", Starting.WAITING, Starting.TIMEOUT)

    @property
    def gave_up(self) -> bool:
        """Whether the host did not join in time."""
        return self.reason(MachineConditionType.HEALTHY) == Starting.TIMEOUT

    @property
    def wants_readmission(self) -> bool:
        """Whether a person asked to admit the host again after it was given up.

        An annotation that is not a time is ignored, because it would count for ever.
        """
        known = self.known(MachineConditionType.HEALTHY)
        try:
            requested_at = datetime.fromisoformat(
                self.machine.metadata.annotations.get(REISSUE, "")
            )
        except ValueError:
            return False
        if known is None or requested_at.tzinfo is None:
            return False
        return requested_at > known.last_transition_time

    def hooks(self, kind: str) -> tuple[str, ...]:
        """Return the annotations of this kind, which hold the deletion."""
        prefix = f"kubenode.io/{kind}"
        return tuple(sorted(a for a in self.machine.metadata.annotations if a.startswith(prefix)))


@dataclass(frozen=True, slots=True)
class MachineStep:
    """The decision about a Machine.

    status: the merge patch of the status, empty for none.
    act: the act to do once the status is written.
    again: when to reconcile again if nothing changes, None for never.
    """

    status: Mapping[str, Any] = field(default_factory=dict)
    act: MachineAct = MachineAct.NONE
    again: timedelta | None = None
