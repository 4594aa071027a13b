"""MachineSet with the fields that the dashboard reads."""

import msgspec

from defender.dashboard.rule import RuleCondition
from kubenode.runtime.kube.objects import KubeObjectMeta


class TemplateSpecView(msgspec.Struct, rename="camel", frozen=True):
    class_ref: str = ""
    node: str = "Expected"


class TemplateView(msgspec.Struct, rename="camel", frozen=True):
    spec: TemplateSpecView = TemplateSpecView()


class AutoscalingView(msgspec.Struct, rename="camel", frozen=True):
    min_replicas: int = 0
    max_replicas: int = 0


class SetHealthView(msgspec.Struct, rename="camel", frozen=True):
    max_unhealthy: int | str = "20%"
    max_replacing: int = 1


class MachineSetViewSpec(msgspec.Struct, rename="camel", frozen=True):
    replicas: int = 0
    template: TemplateView = TemplateView()
    autoscaling: AutoscalingView | None = None
    update_policy: str = "OnDelete"
    max_surge: int | str = 1
    health: SetHealthView = SetHealthView()


class MachineSetViewStatus(msgspec.Struct, rename="camel", frozen=True):
    replicas: int = 0
    ready: int = 0
    available: int = 0
    up_to_date: int = 0
    replacing: int = 0
    preserved: int = 0
    conditions: tuple[RuleCondition, ...] = ()


class MachineSetView(msgspec.Struct, rename="camel", frozen=True):
    """One MachineSet."""

    metadata: KubeObjectMeta
    spec: MachineSetViewSpec = MachineSetViewSpec()
    status: MachineSetViewStatus = MachineSetViewStatus()

    def waiting(self) -> tuple[RuleCondition, ...]:
        """Return the conditions that say why the set waits, none if it does not."""
        return tuple(
            c
            for c in self.status.conditions
            if c.type in ("Scaled", "Healthy") and c.status != "True"
        )
