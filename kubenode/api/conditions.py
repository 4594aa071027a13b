"""Sets the conditions of a status, with the semantics of metav1.Condition. Pure.

- The transition time changes only with the status, not with the reason or message.
- `observedGeneration` is the generation of the spec from which the condition was derived.
- A condition keeps its place in the list; a new type is appended.
- A long message is cut at MESSAGE_LENGTH.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubenode.api.meta import Condition, ConditionStatus

MESSAGE_LENGTH = 4096
"""Maximum number of characters of a message. A truncated message ends in CUT."""
CUT = "..."


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """The new content of a condition, without its times."""

    status: ConditionStatus
    reason: str
    message: str = ""

    @classmethod
    def of(cls, holds: bool, reason: str, message: str = "") -> "ConditionUpdate":
        """Return the update with status True or False."""
        return cls(ConditionStatus.TRUE if holds else ConditionStatus.FALSE, reason, message)


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of this type, None if there is none."""
    return next((each for each in conditions if each.type == type_), None)


def set_condition(
    conditions: Sequence[Condition],
    type_: str,
    update: ConditionUpdate,
    *,
    generation: int | None,
    now: datetime,
) -> list[Condition]:
    """Return the conditions with this one set.

    generation: the observed generation; None for a kind whose controller writes its spec too.
    """
    old = find_condition(conditions, type_)
    new = _make_condition(type_, update, old, generation, now)
    if old is None:
        return [*conditions, new]
    others = (each for each in conditions if each is old or each.type != type_)
    return [new if each is old else each for each in others]


def set_conditions(
    conditions: Sequence[Condition],
    updates: Iterable[tuple[str, ConditionUpdate | None]],
    *,
    generation: int | None,
    now: datetime,
) -> list[Condition]:
    """Return the conditions with all updates, by type. None leaves a condition as it is."""
    after = list(conditions)
    for type_, update in updates:
        if update is not None:
            after = set_condition(after, type_, update, generation=generation, now=now)
    return after


def _make_condition(
    type_: str,
    update: ConditionUpdate,
    old: Condition | None,
    generation: int | None,
    now: datetime,
) -> Condition:
    stays = old is not None and old.status is update.status
    return Condition(
        type=type_,
        status=update.status,
        reason=update.reason,
        message=_cut(update.message),
        observed_generation=generation,
        last_transition_time=old.last_transition_time if old is not None and stays else now,
    )


def _cut(message: str) -> str:
    if len(message) <= MESSAGE_LENGTH:
        return message
    return message[: MESSAGE_LENGTH - len(CUT)] + CUT
