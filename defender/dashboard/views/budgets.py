"""Limits of each policy with their use, and the holders that wait for them. Pure.

Of a limit with many scopes those with the least room are shown, and the rest is summed up.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.natural import natural
from defender.dashboard.scene import Scene
from defender.decision.budgets import LimitBudget, budgets
from defender.decision.limits.handler import LimitHandler
from defender.decision.limits.table import BY_NAME, DISPLAYED
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit, LimitScope
from kubenode.runtime.site.parts import PagePart

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
    headings: tuple[str, ...]
    key: str = "columns"


@dataclass(frozen=True, slots=True)
class LimitCell:
    """One measure of a scope under its heading. measure: None if the scope does not have it."""

    heading: str
    measure: Measure | None
    text: str


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """One scope. room: acts that all measures allow, also those that are not shown."""

    template: ClassVar[str] = "parts/scope.html"
    key: str
    cells: tuple[LimitCell, ...]
    room: int


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
    measured: dict[tuple[str, int], dict[str, dict[str, LimitBudget]]] = defaultdict(dict)
    for budget in budgets(scene.control, scene.now):
        scopes = measured[budget.policy, budget.index]
        scopes.setdefault(budget.scope, {})[budget.kind] = budget
    for policy in _ruling(scene):
        for index, limit in enumerate(policy.spec.limits if policy.spec else ()):
            name = f"{policy.name}/{index}"
            shown_parts = [each for each in DISPLAYED if each.terms(limit)]
            columns = Columns(tuple(each.texts.heading for each in shown_parts))
            by_scope = measured[policy.name, index]
            rows = [_row(scope, parts, shown_parts) for scope, parts in by_scope.items()]
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


def _row(
    scope: str, parts: dict[str, LimitBudget], shown_parts: Sequence[LimitHandler]
) -> ScopeRow:
    cells = tuple(_cell(each, parts.get(each.name)) for each in shown_parts)
    return ScopeRow(scope, cells, min(budget.room for budget in parts.values()))


def _cell(handler: LimitHandler, budget: LimitBudget | None) -> LimitCell:
    texts = handler.texts
    if budget is None:
        return LimitCell(texts.heading, None, "")
    text = texts.figure.format(limit=budget.limit, room=budget.room)
    return LimitCell(texts.heading, _measure(budget), text)


def _measure(budget: LimitBudget) -> Measure:
    used, most = budget.used, budget.limit
    if BY_NAME[budget.kind].least:
        used, most = most, used  # the bar fills up as the number nears the least
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
    terms = [term for each in DISPLAYED for term in each.terms(limit)]
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
