"""MachineComponentSet with the fields that the dashboard reads."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from defender.dashboard.rule import RuleCondition
from kubenode.api.meta import LabelSelector
from kubenode.runtime.kube.objects import KubeObjectMeta


class SelectorView(msgspec.Struct, rename="camel", frozen=True):
    """Selector of machines. An invalid expression selects none."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[dict[str, Any], ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        try:
            selector = _selector(msgspec.json.encode(self))
        except ValueError:
            return False
        return selector.matches(labels)


@lru_cache(maxsize=256)
def _selector(text: bytes) -> LabelSelector:
    return LabelSelector.model_validate_json(text)


class StrategyView(msgspec.Struct, rename="camel", frozen=True):
    batches: tuple[int | str, ...] = (1, 5, 10, 50, 100)
    bake_time: str = "10m"
    max_unavailable: int | str = "10%"
    partition: int | str = 0
    failure_policy: str = "Pause"


class RolloutSpec(msgspec.Struct, rename="camel", frozen=True):
    component: str = ""
    values: dict[str, str] = {}
    desired_state: str = "Running"
    selector: SelectorView = SelectorView()
    update_strategy: StrategyView = StrategyView()
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


class RevisionView(msgspec.Struct, rename="camel", frozen=True):
    """Content of a revision."""

    name: str = ""
    number: int = 1
    component: str = ""
    values: dict[str, str] = {}
    desired_state: str = "Running"


class RolloutStatus(msgspec.Struct, rename="camel", frozen=True):
    phase: str = ""
    current_revision: str = ""
    update_revision: str = ""
    rejected_revision: str = ""
    revisions: tuple[RevisionView, ...] = ()
    counts: RolloutCounts = RolloutCounts()
    versions: tuple[Version, ...] = ()
    batch: RolloutBatch | None = None
    conditions: tuple[RuleCondition, ...] = ()


class SetRollout(msgspec.Struct, rename="camel", frozen=True):
    """One MachineComponentSet."""

    metadata: KubeObjectMeta
    spec: RolloutSpec = RolloutSpec()
    status: RolloutStatus = RolloutStatus()
