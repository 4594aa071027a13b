"""Describes how one kind of limit is decided and shown. Pure.

Each kind is a module of this folder that declares its HANDLER, and `defender.decision.limits.table`
lists them. Verdicts, the queue, metrics, the dashboard, the commands and the labelled cases read
the table, so a new kind needs no change there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from defender.decision.census import CensusTally
from defender.decision.coverage import ScopedLimit
from defender.decision.limits.case import LimitCase, LimitRefusal
from defender.decision.limits.demand import Demand
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit

if TYPE_CHECKING:
    from defender.decision.control import RiskControl


@dataclass(frozen=True, slots=True)
class LimitReading:
    """One limit in one scope, read to show its use and not for a particular act."""

    control: "RiskControl"
    bound: ScopedLimit
    tally: CensusTally
    required: Demand
    now: datetime


@dataclass(frozen=True, slots=True)
class LimitUse:
    """Use of a limit in a scope. room: number of acts that it allows now, also below zero."""

    used: int
    limit: int
    room: int


@dataclass(frozen=True, slots=True)
class LimitTexts:
    """What people read about a kind of limit.

    hold: why a job waits for it, a sentence
    remedy: what would have to change; {scope} stands for the scope
    heading: of its column on the dashboard
    figure: text after the used number in that column; {limit} and {room} stand for numbers
    """

    hold: str
    remedy: str
    heading: str
    figure: str


LimitDecision = Callable[[LimitCase, ScopedLimit, CensusTally, Demand], LimitRefusal | None]
"""Refuses an act or returns None: (case, limit in its scope, tally, demand) -> refusal."""


@dataclass(frozen=True, slots=True)
class LimitHandler:
    """Handles one kind of limit.

    name: its field in the limits of a DefenderPolicy, which is also its name in metrics
    reason: of its refusals
    refuse: decides about an act
    measure: its use; None if the limit does not have this kind
    terms: as in the policy; none if the limit does not have this kind
    least: whether the limit is the least number and not the greatest
    freed_by_health: whether a node that becomes healthy may end a refusal
    storm: whether a refusal holds every repair of the scope
    """

    name: str
    reason: Reason
    refuse: LimitDecision
    measure: Callable[[LimitReading], LimitUse | None]
    terms: Callable[[Limit], list[str]]
    texts: LimitTexts
    least: bool = False
    freed_by_health: bool = False
    storm: bool = False
