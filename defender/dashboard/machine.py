"""Machine with the fields that the pages of rollouts and MachineSets read."""

import msgspec

from defender.dashboard.rule import RuleCondition
from kubenode.runtime.kube.objects import KubeObjectMeta


class AssignedView(msgspec.Struct, rename="camel", frozen=True):
    """What a set assigned to the machine."""

    name: str = ""
    set: str = ""
    revision: str = ""
    config_hash: str = ""
    desired_state: str = "Running"
    attempt: int = 1
    batch: int = 0


class InstalledView(msgspec.Struct, rename="camel", frozen=True):
    """What the agent reports of a component."""

    name: str = ""
    revision: str = ""
    attempt: int = 0
    version: str = ""
    config_hash: str = ""
    state: str = ""
    reason: str = ""
    message: str = ""


class RolloutMachineSpec(msgspec.Struct, rename="camel", frozen=True):
    node_name: str = ""
    components: tuple[AssignedView, ...] = ()


class RolloutMachineStatus(msgspec.Struct, rename="camel", frozen=True):
    phase: str = ""
    components: tuple[InstalledView, ...] = ()
    conditions: tuple[RuleCondition, ...] = ()


class RolloutMachine(msgspec.Struct, rename="camel", frozen=True):
    """One Machine."""

    metadata: KubeObjectMeta
    spec: RolloutMachineSpec = RolloutMachineSpec()
    status: RolloutMachineStatus = RolloutMachineStatus()

    @property
    def node(self) -> str:
        return self.spec.node_name or self.metadata.name

    @property
    def machine_set(self) -> str:
        """Name of the MachineSet that controls the machine, "" for none."""
        owners = self.metadata.owner_references
        return next((o.name for o in owners if o.controller and o.kind == "MachineSet"), "")

    def assigned_by(self, set_: str) -> AssignedView | None:
        """Return what the set assigned to the machine, None for nothing."""
        return next((each for each in self.spec.components if each.set == set_), None)

    def installed(self, component: str) -> InstalledView | None:
        return next((each for each in self.status.components if each.name == component), None)
