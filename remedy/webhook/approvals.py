"""Signs what people write into a job: author and time are set here, whatever they wrote.

    spec.approvals      new entries get `by` and `at`; existing ones stay as they are
    kubenode.io/started-by    annotation: who made a job that no rule made
    kubenode.io/cancelled-by  annotation: who set spec.cancel

Pure. The webhook of a cluster and the API server of the demo call the same function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubenode.api.decisions import CANCELLED_BY, STARTED_BY, unheard
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision
from remedy.webhook.annotations import Obj, annotation_patch, annotations, mapping

LONGEST_NAME = 256
ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class ApprovalCaller:
    """Author of a request.

    name: as the API server authenticated it; "" only without authentication, as in the demo
    speaks: whether it may name the person it speaks for, as a chat bot may
    """

    name: str
    speaks: bool = False

    def signature(self, claimed: str) -> str:
        if not self.speaks or not claimed:
            return self.name[:LONGEST_NAME] or ANONYMOUS
        through = f" through {self.name}" if self.name else ""
        return claimed[: LONGEST_NAME - len(through)] + through


@dataclass(frozen=True, slots=True)
class Signed:
    """Result of signing.

    patch: JSON patch operations that sign the object
    decisions: new entries of spec.approvals
    started: who has just made the job by hand, "" if nobody; `cancelled` in the same way
    """

    patch: tuple[Mapping[str, Any], ...] = ()
    decisions: tuple[ApprovalDecision, ...] = ()
    started: str = ""
    cancelled: str = ""


def signed(new: Obj, old: Obj | None, caller: ApprovalCaller, now: datetime) -> Signed:
    """Sign the object. `old` is None when the job is created. Raises ValueError that names field,
    value and fix.
    """
    if not caller.name and not caller.speaks:
        raise ValueError("request.userInfo.username: empty: what is written must have an author")
    entries, decisions = _entries(new, old, caller, now)
    marks = _marks(new, old, caller)
    patch: list[Mapping[str, Any]] = []
    if entries is not None:
        patch.append({"op": "add", "path": "/spec/approvals", "value": entries})
    patch += annotation_patch(new, marks)
    given, before = annotations(new), annotations(old or {})

    def fresh(key: str) -> str:
        mark = marks.get(key, given.get(key, ""))
        return mark if mark and mark != before.get(key) else ""

    return Signed(tuple(patch), decisions, fresh(STARTED_BY), fresh(CANCELLED_BY))


# -- spec.approvals ------------------------------------------------------------------------------


def _entries(
    new: Obj, old: Obj | None, caller: ApprovalCaller, now: datetime
) -> tuple[list[Any] | None, tuple[ApprovalDecision, ...]]:
    """Return the signed list, None if nothing is new, and its new entries."""
    before, after = _list(old or {}), _list(new)
    _unchanged(before, after)
    decisions: list[ApprovalDecision] = []
    for n in range(len(before), len(after)):
        word = ApprovalDecision.model_validate(after[n])
        if why := _unheard(new if old is None else old, word, created=old is None):
            raise ValueError(f"spec.approvals[{n}].decision: {word.decision}: {why}")
        by, at = caller.signature(word.by), now.replace(microsecond=0)
        decisions.append(word.model_copy(update={"by": by, "at": at}))
    if not decisions:
        return None, ()
    return [*before, *(_dumped(word) for word in decisions)], tuple(decisions)


def _unheard(job: Obj, word: ApprovalDecision, *, created: bool) -> str:
    if created:
        return "" if word.decision == "Approve" else "a new job can only be approved with its birth"
    return unheard(job, word.decision, word.rung)


def _unchanged(before: list[Any], after: list[Any]) -> None:
    for n, entry in enumerate(before):
        was = ApprovalDecision.model_validate(entry)
        now = ApprovalDecision.model_validate(after[n]) if n < len(after) else None
        if now != was:
            earlier = f"{was.decision} by {was.by or 'nobody'}"
            did = "gone" if now is None else "another"
            raise ValueError(
                f"spec.approvals[{n}]: {earlier} was written and is {did} now: what was said stays;"
                f" add a new entry after the {len(before)} that there are"
            )


def _dumped(word: ApprovalDecision) -> dict[str, Any]:
    assert word.at is not None
    rung = {} if word.rung is None else {"rung": word.rung}
    head = {"decision": word.decision, "by": word.by, "at": format_time(word.at)}
    return {**head, **rung, "note": word.note}


def _list(job: Obj) -> list[Any]:
    """Return the entries; the schema, which the API server checks after us, rejects
    another type.
    """
    approvals = _spec(job).get("approvals")
    return approvals if isinstance(approvals, list) else []


def _spec(job: Obj) -> Obj:
    return mapping(job.get("spec"))


# -- annotations ---------------------------------------------------------------------------------


def _marks(new: Obj, old: Obj | None, caller: ApprovalCaller) -> dict[str, str]:
    """Return our two annotations where they must change; "" removes one."""
    given, before = annotations(new), annotations(old or {})
    marks = {key: before.get(key, "") for key in (STARTED_BY, CANCELLED_BY)}
    spec = _spec(new)
    if old is None and not spec.get("remedier"):
        marks[STARTED_BY] = caller.signature(given.get(STARTED_BY, ""))
    if spec.get("cancel") and not _spec(old or {}).get("cancel"):
        marks[CANCELLED_BY] = caller.signature(given.get(CANCELLED_BY, ""))
    return {key: mark for key, mark in marks.items() if mark != given.get(key, "")}
