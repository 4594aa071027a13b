"""Version v1alpha1 of the API: every kind, and the parts that programs share."""

from kubenode.api.base import API_VERSION, GROUP, VERSION, Resource
from kubenode.api.meta import (
    Condition,
    ConditionStatus,
    LabelSelector,
    NodeSelection,
    ObjectMeta,
)
from kubenode.api.v1alpha1.agentassignment import AgentAssignment
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicy, default_policy
from kubenode.api.v1alpha1.hostevent import HostEvent
from kubenode.api.v1alpha1.hostprobe import HostProbe
from kubenode.api.v1alpha1.ladder import Disruption, Rung, Step
from kubenode.api.v1alpha1.leaves import Expression
from kubenode.api.v1alpha1.machine import Machine
from kubenode.api.v1alpha1.machineclass import MachineClass
from kubenode.api.v1alpha1.machinecomponent import MachineComponent
from kubenode.api.v1alpha1.machinecomponentset import MachineComponentSet
from kubenode.api.v1alpha1.machineset import MachineSet
from kubenode.api.v1alpha1.membercluster import MemberCluster
from kubenode.api.v1alpha1.nodeclass import NodeClass
from kubenode.api.v1alpha1.noderecord import NodeRecord
from kubenode.api.v1alpha1.noderemedier import Mode, NodeRemedier, Severity
from kubenode.api.v1alpha1.nodeset import NodeSet
from kubenode.api.v1alpha1.permit import Ask, HoldReason, Operation, Permit, Reason, Verdict
from kubenode.api.v1alpha1.release import Release
from kubenode.api.v1alpha1.releasepipeline import ReleasePipeline
from kubenode.api.v1alpha1.remediation import KubeNodeRemediation, KubeNodeRemediationTemplate
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase, RemedyOperationJob

KINDS: tuple[type[Resource], ...] = (
    NodeRemedier,
    RemedyOperationJob,
    HostProbe,
    HostEvent,
    AgentAssignment,
    DefenderPolicy,
    Permit,
    Machine,
    MachineClass,
    MachineSet,
    MachineComponent,
    MachineComponentSet,
    NodeClass,
    NodeSet,
    KubeNodeRemediation,
    KubeNodeRemediationTemplate,
    NodeRecord,
    MemberCluster,
    ReleasePipeline,
    Release,
)

__all__ = [
    "API_VERSION",
    "GROUP",
    "KINDS",
    "VERSION",
    "AgentAssignment",
    "Ask",
    "Condition",
    "ConditionStatus",
    "DefenderPolicy",
    "Disruption",
    "Expression",
    "HoldReason",
    "HostEvent",
    "HostProbe",
    "JobPhase",
    "KubeNodeRemediation",
    "KubeNodeRemediationTemplate",
    "LabelSelector",
    "Machine",
    "MachineClass",
    "MachineComponent",
    "MachineComponentSet",
    "MachineSet",
    "MemberCluster",
    "Mode",
    "NodeClass",
    "NodeRecord",
    "NodeRemedier",
    "NodeSelection",
    "NodeSet",
    "ObjectMeta",
    "Operation",
    "Permit",
    "Reason",
    "Release",
    "ReleasePipeline",
    "RemedyOperationJob",
    "Resource",
    "Rung",
    "Severity",
    "Step",
    "Verdict",
    "default_policy",
]
