"""MachineComponentSet with the fields that the dashboard reads."""

from datetime import datetime

import msgspec

from defender.dashboard.rule import RuleCondition
from kubenode.runtime.kube.objects import KubeObjectMeta


class RolloutSpec(msgspec.Struct, rename="camel", frozen=True):
    component: str = ""
    paused: bool = False
    frozen: bool = False


class RolloutCounts(msgspec.Struct, rename="camel", frozen=True):
    machines: int = 0
    updated: int = 0
    healthy: int = 0
    unavailable: int = 0
    held: int = 0
    excluded: int = 0


class Version(msgspec.Struct, rename="camel", frozen=True):
    version: str = ""
    ready: int = 0
    unready: int = 0


class RolloutBatch(msgspec.Struct, rename="camel", frozen=True):
    index: int = 0
    size: int = 0
    started_at: datetime | None = None
    bake_until: datetime | None = None
    failed: tuple[str, ...] = ()


class RolloutStatus(msgspec.Struct, rename="camel", frozen=True):
    phase: str = ""
    current_revision: str = ""
    update_revision: str = ""
    counts: RolloutCounts = RolloutCounts()
    versions: tuple[Version, ...] = ()
    batch: RolloutBatch | None = None
    conditions: tuple[RuleCondition, ...] = ()


class SetRollout(msgspec.Struct, rename="camel", frozen=True):
    """One MachineComponentSet."""

    metadata: KubeObjectMeta
    spec: RolloutSpec = RolloutSpec()
    status: RolloutStatus = RolloutStatus()
