"""NodeRecords with the fields that tell what rules in DryRun would have done."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from defender.dashboard.rule import RuleView
from kubenode.api.step_text import would_have
from kubenode.runtime.kube.objects import KubeObjectMeta, Node


class WouldHaveView(msgspec.Struct, rename="camel", frozen=True):
    """One repair that the rule would have begun."""

    at: datetime | None = None
    first_true: datetime | None = None
    rung: str = ""
    steps: str = ""
    verdict: str = msgspec.field(default="", name="said")


class DryRunView(msgspec.Struct, rename="camel", frozen=True):
    """Results of one rule on one node, the last ones in full."""

    remedier: str = ""
    fault_class: str = ""
    count: int = 0
    false_since: datetime | None = None
    recent: tuple[WouldHaveView, ...] = ()

    @property
    def last(self) -> WouldHaveView | None:
        return self.recent[-1] if self.recent else None

    @property
    def sentence(self) -> str:
        """What the rule would have done last, with Kube Defender's verdict."""
        last = self.last
        return "" if last is None else would_have(last.steps or last.rung, last.verdict)

    @property
    def began(self) -> datetime | None:
        """When the evidence of the last incident became true, as far as known."""
        return None if self.last is None else self.last.first_true or self.last.at


class RecordViewSpec(msgspec.Struct, rename="camel", frozen=True):
    node_uid: str = msgspec.field(default="", name="nodeUID")
    dry_runs: tuple[DryRunView, ...] = ()


class RecordView(msgspec.Struct, rename="camel", frozen=True):
    """One NodeRecord. It has the name of its node."""

    metadata: KubeObjectMeta
    spec: RecordViewSpec = RecordViewSpec()


def current_dry_runs(
    record: RecordView | None, node: Node, rules: Mapping[str, RuleView]
) -> Iterable[DryRunView]:
    """Return the results whose incident lasts, of rules that are still in DryRun."""
    if record is None or record.spec.node_uid != node.metadata.uid:
        return ()
    return tuple(
        run
        for run in record.spec.dry_runs
        if run.false_since is None
        and (rule := rules.get(run.remedier)) is not None
        and rule.spec.mode == "DryRun"
    )
