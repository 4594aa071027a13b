"""NodeRemedier with the fields that the dashboard reads."""

from datetime import datetime
from typing import Any

import msgspec

from kubenode.runtime.kube.objects import KubeObjectMeta


class RuleSpec(msgspec.Struct, rename="camel", frozen=True):
    mode: str = ""
    priority: int = 500
    severity: str = ""
    fault_class: str = ""
    infer: dict[str, Any] | None = None
    notify: tuple[str, ...] = ()
    nodes: dict[str, Any] = {}
    when: dict[str, Any] = {}
    unless: dict[str, Any] | None = None
    ladder: tuple[dict[str, Any], ...] = ()


class SelectedNodes(msgspec.Struct, rename="camel", frozen=True):
    nodes: int | None = None


class InferredGroup(msgspec.Struct, rename="camel", frozen=True):
    """A group for which the rule has inferred its fact. `until` is None while evidence is there."""

    group: str = ""
    value: Any = True
    until: datetime | None = None


class RuleJobCounts(msgspec.Struct, rename="camel", frozen=True):
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    needs_human: int = 0
    relapsed: int = 0


class RuleCondition(msgspec.Struct, rename="camel", frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class RuleStatus(msgspec.Struct, rename="camel", frozen=True):
    phase: str = ""
    matching: int | None = None
    jobs: RuleJobCounts = RuleJobCounts()
    last_match_time: datetime | None = None
    would_reach: SelectedNodes = SelectedNodes()
    inferred: tuple[InferredGroup, ...] = ()
    conditions: tuple[RuleCondition, ...] = ()


class RuleView(msgspec.Struct, rename="camel", frozen=True):
    """One NodeRemedier. `infer` is set for a rule that only infers a fact."""

    metadata: KubeObjectMeta
    spec: RuleSpec = RuleSpec()
    status: RuleStatus = RuleStatus()
