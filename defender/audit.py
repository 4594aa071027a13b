"""Audit log of grants and refusals.

A refused holder asks again and again. A refusal is written when it begins and when its reason or
scope changes, so a thousand holders that wait for an hour cause a thousand lines.
"""

from collections import OrderedDict
from datetime import datetime

from defender.decision.breaker.control_path import Thaw
from defender.decision.ledger import JOB
from defender.replicas.fleet.departure import Answered
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Ask, Verdict
from kubenode.runtime.audit import SILENT, Audit, AuditLine

PART = "defender"
MOST = 20_000
"""Greatest number of holders and acts whose last answer is remembered."""
Key = tuple[str, str, str]
"""UID of the holder, node, class."""


class Auditing:
    """Writer of the audit log."""

    def __init__(self, audit: Audit = SILENT, most: int = MOST) -> None:
        self._audit, self._most = audit, most
        self._last: OrderedDict[Key, tuple[str, str]] = OrderedDict()

    def answered(self, ask: Ask, verdict: Verdict, now: datetime) -> None:
        """Write a line if the answer is news. Dry runs write none."""
        if self._audit is SILENT or ask.dry_run:
            return
        key = (ask.holder.uid, ask.node, str(ask.class_))
        # A repeated request gets the same permit.
        answer = (str(verdict.reason), verdict.permit if verdict.allowed else verdict.scope)
        before = self._last.get(key, ("", ""))
        self._last[key] = answer
        self._last.move_to_end(key)
        if len(self._last) > self._most:
            self._last.popitem(last=False)
        if before == answer:
            return
        holder = ask.holder
        self._audit.write(
            AuditLine(
                at=now,
                by=PART,
                who=holder.name,
                what=f"{ask.operation} {ask.class_}",
                outcome="Granted" if verdict.allowed else "Refused",
                why=verdict.message,
                job=holder.name if holder.kind == JOB else "",
                node=ask.node,
                before=before[0],
                after=" ".join(answer).strip(),
            )
        )

    def thawed(self, thaw: Thaw, now: datetime) -> None:
        """Write that a person ended a freeze of the control path."""
        since = format_time(thaw.frozen_since)
        self._audit.write(
            AuditLine(
                at=now,
                by=PART,
                who=thaw.by,
                what="Thaw",
                outcome="Done",
                why=thaw.why,
                before=f"frozen since {since}",
                after="thawed",
            )
        )

    def departed(self, answered: Answered, now: datetime) -> None:
        """Write that a person removed a cluster from the fleet."""
        departure = answered.departure
        self._audit.write(
            AuditLine(
                at=now,
                by=PART,
                who=departure.by,
                what="Forget",
                outcome="Refused" if answered.refused else "Done",
                why=answered.refused or departure.why,
                before=f"cluster {departure.cluster}",
            )
        )
