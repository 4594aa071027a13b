"""What a person's pause and resume do to the pauses of one policy. Pure.

A scope has at most one pause in a policy. Pausing what is paused prolongs the pause and never
shortens it: whoever paused for longer knows something. Pauses that are over go with every edit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from kubenode.api.v1alpha1.defenderpolicy import Pause

MOST = 32
"""Pauses that a policy may have."""
SHORT = {
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "rack": "kubenode.io/rack",
    "pool": "kubenode.io/pool",
}
"""Labels by the names that people have for them."""


@dataclass(frozen=True, slots=True)
class PausedScope:
    """What a pause is about. As text it is what verdicts call it: `cluster`, `node=n1`, `key=b`."""

    kind: Literal["Cluster", "Label", "Node"] = "Cluster"
    label: str = ""
    value: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "Cluster":
                return "cluster"
            case "Label":
                return f"{self.label}={self.value}"
            case "Node":
                return f"node={self.value}"

    def has(self, node: str, labels: Mapping[str, str]) -> bool:
        match self.kind:
            case "Cluster":
                return True
            case "Label":
                return labels.get(self.label) == self.value
            case "Node":
                return node == self.value

    def pause(
        self, *, until: datetime | None = None, by: str = "", why: str = "", now: bool = False
    ) -> Pause:
        """Raises ValueError (pydantic) for what no policy takes."""
        where = {"label": self.label or None, "value": self.value or None}
        return Pause(scope=self.kind, **where, until=until, by=by[:256], why=why, now=now)


CLUSTER = PausedScope()


def read_scope(text: str) -> PausedScope:
    """`cluster`, `node=NAME`, `zone=b` and its kin, or any `LABEL=VALUE`. Raises ValueError."""
    if text == "cluster":
        return CLUSTER
    key, sign, value = text.partition("=")
    if not key or not sign or not value:
        raise ValueError(
            f"{text!r} is no scope: write cluster, node=NAME, zone=VALUE, rack=VALUE, pool=VALUE"
            " or LABEL=VALUE"
        )
    if key == "node":
        return PausedScope("Node", value=value)
    return PausedScope("Label", SHORT.get(key, key), value)


def scope_of(pause: Pause) -> PausedScope:
    match pause.scope:
        case "Cluster":
            return CLUSTER
        case "Label":
            return PausedScope("Label", pause.label or "", pause.value or "")
        case "Node":
            return PausedScope("Node", value=pause.value or "")


def over(pause: Pause, now: datetime) -> bool:
    return pause.until is not None and pause.until <= now


def lasting(pauses: Sequence[Pause], now: datetime) -> list[Pause]:
    """Those that still hold."""
    return [pause for pause in pauses if not over(pause, now)]


class PauseOutcome(StrEnum):
    PAUSED = "paused"
    PROLONGED = "prolonged"
    SHARPENED = "sharpened"
    """It held as long already; new is that it takes permits back."""
    UNCHANGED = "unchanged"
    """Paused for at least as long already; or, for a resume, nothing was paused."""
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class Edit:
    """pauses   what the policy shall have
    before   pauses of the scope that held until now
    expired  how many pauses that are over were taken out
    """

    outcome: PauseOutcome
    pauses: list[Pause]
    before: list[Pause]
    expired: int

    @property
    def changes(self) -> bool:
        return self.outcome is not PauseOutcome.UNCHANGED or self.expired > 0


class TooManyPauses(ValueError):
    """The policy has as many pauses as it may have."""

    def __init__(self) -> None:
        super().__init__(
            f"it has {MOST} pauses, and more it cannot have: resume one, or pause a wider scope"
        )


def paused(pauses: Sequence[Pause], wanted: Pause, now: datetime) -> Edit:
    """With `wanted` among them. Raises Full."""
    left = lasting(pauses, now)
    scope, expired = scope_of(wanted), len(pauses) - len(left)
    before = [pause for pause in left if scope_of(pause) == scope]
    others = [pause for pause in left if scope_of(pause) != scope]
    if not before:
        if len(others) >= MOST:
            raise TooManyPauses
        return Edit(PauseOutcome.PAUSED, [*others, wanted], [], expired)
    longest = max(before, key=_ends)
    sharp = any(pause.now for pause in before)
    if _ends(wanted) > _ends(longest):
        kept = wanted.model_copy(update={"now": wanted.now or sharp, "why": _why(wanted, longest)})
        return Edit(PauseOutcome.PROLONGED, [*others, kept], before, expired)
    if wanted.now and not sharp:
        kept = longest.model_copy(update={"now": True})
        return Edit(PauseOutcome.SHARPENED, [*others, kept], before, expired)
    return Edit(PauseOutcome.UNCHANGED, [*others, *before], before, expired)


def resumed(pauses: Sequence[Pause], scope: PausedScope | None, now: datetime) -> Edit:
    """Without the pauses of `scope`; None: without any."""
    left = lasting(pauses, now)
    ended = [pause for pause in left if scope is None or scope_of(pause) == scope]
    kept = [pause for pause in left if pause not in ended]
    outcome = PauseOutcome.RESUMED if ended else PauseOutcome.UNCHANGED
    return Edit(outcome, kept, ended, len(pauses) - len(left))


def common(lists: Sequence[Sequence[Pause]], now: datetime) -> list[Pause]:
    """Pauses that every one of several policies has, each until the first of them ends it.

    They hold for what no policy covers too: so a pause of the whole cluster has no gaps.
    """
    if not lists:
        return []
    scopes = [{scope_of(pause): pause for pause in lasting(each, now)} for each in lists]
    shared = [scope for scope in scopes[0] if all(scope in each for each in scopes)]
    return [min((each[scope] for each in scopes), key=_ends) for scope in shared]


def _why(wanted: Pause, old: Pause) -> str:
    """A person's reason is not lost because another one prolongs."""
    if not old.why or old.why in wanted.why:
        return wanted.why
    if not wanted.why:
        return old.why
    said = f"{old.by}: {old.why}" if old.by and old.by != wanted.by else old.why
    return f"{wanted.why} (before: {said})"[:1024]


def _ends(pause: Pause) -> tuple[bool, float]:
    """Sorts by how long it lasts; what has no end lasts longest."""
    return pause.until is None, pause.until.timestamp() if pause.until is not None else 0.0
