"""Conditions of each kind with a desired state, and the progress that a reader should see."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubenode.api.base import API_VERSION
from kubenode.api.meta import Condition
from kubenode.api.readiness import Progress, set_readiness

T0 = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
CURRENT, IN_PROGRESS, FAILED = Progress.CURRENT, Progress.IN_PROGRESS, Progress.FAILED


@dataclass(frozen=True, slots=True)
class ReadinessCase:
    """Conditions that the controller of a kind has set, and the progress that follows."""

    kind: str
    progress: Progress
    conditions: tuple[Condition, ...]

    @property
    def name(self) -> str:
        parts = (f"{c.type}={c.reason or c.status}" for c in self.conditions)
        return f"{self.kind}:{','.join(parts)}"

    def as_object(self, generation: int = 3, observed: int = 3) -> dict[str, Any]:
        """Return the object as the API server serves it."""
        conditions = set_readiness(self.kind, self.conditions, generation=observed, now=T0)
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind,
            "metadata": {"name": "a", "generation": generation},
            "status": {
                "observedGeneration": observed,
                "conditions": [condition.to_dict() for condition in conditions],
            },
        }


def make_condition(type_: str, status: str, reason: str = "", message: str = "") -> Condition:
    return Condition.model_validate(
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-11-21T01:00:00Z",
        }
    )


def _case(kind: str, progress: Progress, *conditions: tuple[str, ...]) -> ReadinessCase:
    return ReadinessCase(kind, progress, tuple(make_condition(*each) for each in conditions))


_COMPLETED = ("Progressing", "False", "Completed")
CASES = (
    _case("ReleasePipeline", CURRENT, ("Valid", "True", "Valid")),
    _case("ReleasePipeline", FAILED, ("Valid", "False", "EmptyStage")),
    _case("ReleasePipeline", IN_PROGRESS),
    _case("Release", CURRENT, ("Progressing", "False", "Succeeded")),
    _case("Release", FAILED, ("Progressing", "False", "RolledBack")),
    _case("Release", IN_PROGRESS, ("Progressing", "True", "Baking")),
    _case("Release", IN_PROGRESS, ("Progressing", "True", "User"), ("Paused", "True", "User")),
    _case("Release", FAILED, ("Paused", "True", "ClustersFailed")),
    _case("Release", IN_PROGRESS),
    _case("NodeRemedier", CURRENT),
    _case("NodeRemedier", CURRENT, ("Compiled", "True"), ("EnginesAgree", "True")),
    _case("NodeRemedier", CURRENT, ("Compiled", "True"), ("SafeSize", "False", "SelectsNoNode")),
    _case("NodeRemedier", FAILED, ("Compiled", "False", "Rejected")),
    _case("NodeRemedier", FAILED, ("Compiled", "True"), ("EnginesAgree", "False", "Quarantined")),
    _case("DefenderPolicy", CURRENT, ("NotEnforced", "False", "Enforced")),
    _case("DefenderPolicy", FAILED, ("NotEnforced", "True", "Refusing")),
    _case("DefenderPolicy", CURRENT, ("NotEnforced", "False"), ("CommonCause", "True", "Rack")),
    _case("MachineClass", IN_PROGRESS),
    _case("MachineClass", CURRENT, ("Ready", "True", "Valid")),
    _case("MachineClass", FAILED, ("Ready", "False", "ConfigInvalid")),
    _case("MemberCluster", IN_PROGRESS),
    _case("MemberCluster", CURRENT, ("Reachable", "True"), ("Installed", "True")),
    _case("MemberCluster", CURRENT, ("Reachable", "Unknown", "Paused")),
    _case("MemberCluster", IN_PROGRESS, ("Reachable", "False", "Timeout")),
    _case("MemberCluster", FAILED, ("Reachable", "False", "InvalidKubeconfig")),
    _case("MemberCluster", FAILED, ("Reachable", "True"), ("Installed", "False", "KindsMissing")),
    _case("MachineComponent", IN_PROGRESS),
    _case("MachineComponent", CURRENT, ("Valid", "True", "Valid")),
    _case("MachineComponent", FAILED, ("Valid", "False", "BadSource")),
    _case("Machine", IN_PROGRESS),
    _case("Machine", IN_PROGRESS, ("Healthy", "Unknown", "Starting")),
    _case("Machine", IN_PROGRESS, ("Healthy", "True", "Healthy")),
    _case("Machine", CURRENT, ("Healthy", "True"), ("ComponentsReady", "True", "Ready")),
    _case("Machine", IN_PROGRESS, ("Healthy", "True"), ("ComponentsReady", "False", "Installing")),
    _case("Machine", IN_PROGRESS, ("Healthy", "False", "Unhealthy"), ("ComponentsReady", "True")),
    _case("Machine", FAILED, ("Healthy", "False", "StartupTimeout")),
    _case("Machine", FAILED, ("InstanceReady", "False", "CreateFailed")),
    _case("Machine", FAILED, ("Healthy", "False"), ("ComponentsReady", "False", "DriftFight")),
    _case("NodeClass", IN_PROGRESS),
    _case("NodeClass", CURRENT, ("Ready", "True", "Valid")),
    _case("NodeClass", FAILED, ("Ready", "False", "NameTaken")),
    _case("NodeSet", IN_PROGRESS),
    _case("NodeSet", CURRENT, ("Converted", "True"), ("Scaled", "True"), ("Healthy", "True")),
    _case("NodeSet", FAILED, ("Converted", "False", "NameTaken")),
    _case("NodeSet", IN_PROGRESS, ("Converted", "False", "NodeClassMissing")),
    _case("NodeSet", IN_PROGRESS, ("Converted", "True"), ("Scaled", "Unknown", "Converting")),
    _case(
        "NodeSet",
        IN_PROGRESS,
        ("Converted", "True"),
        ("Scaled", "True"),
        ("Healthy", "False", "Unhealthy"),
    ),
    _case(
        "NodeSet",
        FAILED,
        ("Converted", "True"),
        ("Scaled", "False"),
        ("Healthy", "False", "TooManyUnhealthy"),
    ),
    _case("MachineSet", IN_PROGRESS),
    _case("MachineSet", CURRENT, ("Scaled", "True"), ("Healthy", "True")),
    _case("MachineSet", IN_PROGRESS, ("Scaled", "False", "Scaling"), ("Healthy", "True")),
    _case("MachineSet", IN_PROGRESS, ("Scaled", "True"), ("Healthy", "False", "Unhealthy")),
    _case("MachineSet", FAILED, ("Scaled", "False"), ("Healthy", "False", "TooManyUnhealthy")),
    _case("MachineComponentSet", IN_PROGRESS),
    _case("MachineComponentSet", CURRENT, _COMPLETED),
    _case("MachineComponentSet", CURRENT, _COMPLETED, ("Paused", "True", "User")),
    _case("MachineComponentSet", CURRENT, ("Progressing", "False", "Idle")),
    _case("MachineComponentSet", CURRENT, ("Progressing", "False", "PartitionReached")),
    _case("MachineComponentSet", IN_PROGRESS, ("Progressing", "True", "Baking")),
    _case("MachineComponentSet", IN_PROGRESS, ("Progressing", "False", "WindowClosed")),
    _case("MachineComponentSet", IN_PROGRESS, ("Progressing", "False", "AgentsUnknown")),
    _case("MachineComponentSet", IN_PROGRESS, ("Progressing", "False", "Paused")),
    _case(
        "MachineComponentSet",
        IN_PROGRESS,
        ("Progressing", "True", "Updating"),
        ("Degraded", "True", "MachinesFailed"),
    ),
    _case("MachineComponentSet", FAILED, _COMPLETED, ("Degraded", "True", "MachinesFailed")),
    _case("MachineComponentSet", IN_PROGRESS, _COMPLETED, ("Degraded", "True", "VersionSkew")),
    _case("MachineComponentSet", FAILED, _COMPLETED, ("Degraded", "True", "RolledBack")),
    _case("MachineComponentSet", FAILED, ("Progressing", "False", "DeadlineExceeded")),
    _case(
        "MachineComponentSet",
        FAILED,
        ("Progressing", "False", "Paused"),
        ("Paused", "True", "InspectionFailed"),
    ),
)
