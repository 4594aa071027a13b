"""Nodes that rules in DryRun match: faults that a dry run counts, and nothing else does.

A rule in DryRun makes no job, so breakers do not count its faults. Its verdict would then promise
acts that the breaker refuses once the rule acts. So the verdict on a dry run counts these nodes.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from defender.dashboard.rule import RuleView
from defender.overview.records import DryRunView, RecordView, current_dry_runs
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node

UNRECORDED = timedelta(minutes=2)
"""For so long a request counts whose result no NodeRecord has yet."""


class ShadowFaults:
    """Nodes with a lasting dry run, with the start of the fault, kept up to date by informers.

    on_changed: called with the name of each node whose record changed.
    """

    def __init__(
        self,
        nodes: Informer[Node],
        rules: Informer[RuleView],
        records: Informer[RecordView],
    ) -> None:
        self.rules, self.records = rules, records
        self.on_changed: list[Callable[[str], None]] = []
        self._nodes = nodes
        self._since: dict[str, datetime] = {}
        self._asks: dict[str, datetime] = {}
        nodes.add_handler(self._node_changed)
        rules.add_handler(self._rule_changed)
        records.add_handler(self._record_changed)

    def dry_runs(self, node: Node) -> tuple[DryRunView, ...]:
        """Return the lasting results of the node."""
        return tuple(current_dry_runs(self.records.get(node.metadata.name), node, self.rules.cache))

    def faults(self, now: datetime) -> Mapping[str, datetime]:
        """Return the start of the fault of each node with a dry run."""
        self._asks = {name: at for name, at in self._asks.items() if now < at + UNRECORDED}
        return self._asks | self._since

    def note(self, node: str, now: datetime) -> None:
        """Count a request until its result is recorded."""
        self._asks.setdefault(node, now)

    def _node_changed(self, name: str, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            self._update(name)

    def _record_changed(self, name: str, old: RecordView | None, new: RecordView | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        self._update(name)
        for notify in self.on_changed:
            notify(name)

    def _rule_changed(self, name: str, old: RuleView | None, new: RuleView | None) -> None:
        before, after = (each.spec.mode if each is not None else "" for each in (old, new))
        if before != after:
            for record in self.records.cache:
                self._update(record)

    def _update(self, name: str) -> None:
        node = self._nodes.get(name)
        runs = self.dry_runs(node) if node is not None else ()
        starts = [at for run in runs if (at := run.began) is not None]
        if starts:
            self._since[name] = min(starts)
            self._asks.pop(name, None)
        else:
            self._since.pop(name, None)
