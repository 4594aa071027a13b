"""Limits of each policy with their use, and the holders that wait for them. Pure.

Of a limit with many scopes those with the least room are shown, and the rest is summed up.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.natural import natural
from defender.dashboard.render import PagePart
from defender.dashboard.scene import Scene
from defender.decision.budgets import BudgetKind, LimitBudget, budgets
from defender.decision.policies import LoadedPolicy
from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit, LimitScope

SHOWN = 12
"""Scopes of one limit to show, unless all are requested."""
MOST = 500
WAITING = 100


@dataclass(frozen=True, slots=True)
class Measure:
    """Use of one part of a limit. `full`: percentage of the bar; `room`: acts that are still
    allowed.
    """

    used: int
    limit: int
    room: int
    full: int

    @property
    def tight(self) -> bool:
        return self.room == 0


@dataclass(frozen=True, slots=True)
class LimitHead:
    """Head of a limit. hidden: number of scopes that are not shown; tight: number without room."""

    template: ClassVar[str] = "parts/limit.html"
    policy: str
    index: int
    title: str
    terms: tuple[str, ...]
    scopes: int
    hidden: int
    tight: int
    key: str = "head"


@dataclass(frozen=True, slots=True)
class Columns:
    """Measures of a limit, as the head of its table."""

    template: ClassVar[str] = "parts/limit_columns.html"
    held: bool
    healthy: bool
    rate: bool
    key: str = "columns"


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """One scope. `rate` counts grants within the last `per`; its room is what may be granted at
    once now.
    """

    template: ClassVar[str] = "parts/scope.html"
    key: str
    held: Measure | None
    healthy: Measure | None
    rate: Measure | None
    columns: Columns

    @property
    def room(self) -> int:
        return min(each.room for each in (self.held, self.healthy, self.rate) if each is not None)


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """One waiting holder."""

    template: ClassVar[str] = "parts/waiting.html"
    key: str
    number: int
    node: str
    job: str
    holder: str
    class_: str
    severity: str
    reason: str
    message: str
    since: datetime
    deadline: datetime | None
    called: bool


@dataclass(frozen=True, slots=True)
class Total:
    template: ClassVar[str] = "parts/total.html"
    text: str
    key: str = "total"


def view(scene: Scene, whole: str = "") -> dict[str, Sequence[PagePart]]:
    """Return the view. `whole`: POLICY/INDEX of a limit of which all scopes are shown, "" for
    none.
    """
    slots: dict[str, Sequence[PagePart]] = {}
    measured: dict[tuple[str, int], dict[str, dict[BudgetKind, LimitBudget]]] = defaultdict(dict)
    for budget in budgets(scene.control, scene.now):
        scopes = measured[budget.policy, budget.index]
        scopes.setdefault(budget.scope, {})[budget.kind] = budget
    for policy in _ruling(scene):
        for index, limit in enumerate(policy.spec.limits if policy.spec else ()):
            name = f"{policy.name}/{index}"
            columns = _columns(limit)
            rows = [_row(s, kinds, columns) for s, kinds in measured[policy.name, index].items()]
            rows.sort(key=lambda row: (row.room, natural(row.key)))
            shown = rows[: MOST if whole == name else SHOWN]
            assert policy.spec is not None
            head = _head(policy, policy.spec, index, limit, rows, len(rows) - len(shown))
            slots[f"head {name}"] = [head]
            slots[f"columns {name}"] = [columns]
            slots[f"scopes {name}"] = shown
    return slots | _queue(scene)


def _ruling(scene: Scene) -> list[LoadedPolicy]:
    return sorted(scene.control.policies, key=lambda p: p.name) or [scene.control.fallback]


def _columns(limit: Limit) -> Columns:
    return Columns(
        held=limit.max_concurrent is not None,
        healthy=limit.min_healthy is not None or limit.others_healthy,
        rate=limit.rate is not None,
    )


def _row(scope: str, kinds: dict[BudgetKind, LimitBudget], columns: Columns) -> ScopeRow:
    return ScopeRow(
        scope,
        _measure(kinds.get(BudgetKind.CONCURRENCY)),
        _measure(kinds.get(BudgetKind.HEALTHY)),
        _measure(kinds.get(BudgetKind.RATE)),
        columns,
    )


def _measure(budget: LimitBudget | None) -> Measure | None:
    if budget is None:
        return None
    used, most = budget.used, budget.limit
    if budget.kind is BudgetKind.HEALTHY:
        used, most = most, used  # the bar fills up as the number nears what must stay healthy
    full = 100 if budget.room == 0 or not most else 100 * used // most
    return Measure(budget.used, budget.limit, budget.room, min(100, full))


def _head(
    policy: LoadedPolicy,
    spec: DefenderPolicySpec,
    index: int,
    limit: Limit,
    rows: list[ScopeRow],
    hidden: int,
) -> LimitHead:
    tight = sum(row.room == 0 for row in rows)
    title = title_of(limit)
    return LimitHead(policy.name, index, title, tuple(_terms(limit)), len(rows), hidden, tight)


def title_of(limit: Limit) -> str:
    match limit.scope:
        case LimitScope.CLUSTER:
            return "cluster"
        case LimitScope.CONTROL_PLANE:
            return "control-plane"
        case LimitScope.LABEL:
            return limit.label or ""
        case LimitScope.FLEET:
            return f"fleet {limit.group}"


def _terms(limit: Limit) -> list[str]:
    """Return the terms of the limit as in the policy."""
    terms = []
    if limit.max_concurrent is not None:
        terms.append(f"maxConcurrent {limit.max_concurrent}")
    if limit.min_healthy is not None:
        terms.append(f"minHealthy {limit.min_healthy}")
    if limit.others_healthy:
        terms.append("othersHealthy")
    if limit.rate is not None:
        per = format_duration(limit.rate.per)
        terms.append(f"rate {limit.rate.count} per {per}, burst {limit.rate.burst}")
    if limit.on_unreachable:
        terms.append(f"onUnreachable {limit.on_unreachable}")
    terms.append(f"classes {', '.join(limit.classes)}" if limit.classes else "classes Pods, Node")
    return terms


def _queue(scene: Scene) -> dict[str, Sequence[PagePart]]:
    places = scene.control.queue.waiting(WAITING)
    many = sum(scene.control.queue.counts().values())
    rows = [
        WaitingRow(
            key=f"{place.holder.uid} {place.node}",
            number=number,
            node=place.node,
            job=place.holder.name if place.holder.kind == "RemedyOperationJob" else "",
            holder=f"{place.holder.kind} {place.holder.name}",
            class_=str(place.class_),
            severity=str(place.severity),
            reason=str(place.reason),
            message=place.message,
            since=place.since,
            deadline=place.deadline,
            called=place.called,
        )
        for number, place in enumerate(places, start=1)
    ]
    if not many:
        text = "Nobody waits for a permit."
    else:
        note = f", the first {WAITING} are shown" if many > WAITING else ""
        text = f"{many} {'waits' if many == 1 else 'wait'} for a permit{note}."
    return {"total": [Total(text)], "queue": rows}
