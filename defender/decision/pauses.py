"""Effect of a person's pause and resume on the pauses of one policy. Pure.

A scope has at most one pause in a policy. Pausing it again extends the pause and never shortens it,
because whoever paused for longer had a reason. Each edit removes expired pauses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from kubenode.api.v1alpha1.defenderpolicy import Pause

MOST = 32
"""Greatest number of pauses of a policy, as the CRD allows."""
SHORT = {
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "rack": "kubenode.io/rack",
    "pool": "kubenode.io/pool",
}
"""Short names of labels."""


_NAMES = {label: name for name, label in SHORT.items()} | {"node": "node"}


def describe_scope(scope: str) -> str:
    """Return the scope of a verdict as people say it: `zone b`, `rack r1`, `cluster`."""
    label, separator, value = scope.partition("=")
    name = _NAMES.get(label)
    return f"{name} {value}" if separator and name else scope


@dataclass(frozen=True, slots=True)
class PausedScope:
    """Scope of a pause. As text it is the scope in verdicts: `cluster`, `node=n1` or `key=b`."""

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
        """Return whether the scope contains the node."""
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
        """Return a pause of this scope. Raises ValueError (pydantic) if a policy cannot have it."""
        where = {"label": self.label or None, "value": self.value or None}
        return Pause(scope=self.kind, **where, until=until, by=by[:256], why=why, now=now)


CLUSTER = PausedScope()


def read_scope(text: str) -> PausedScope:
    """Parse `cluster`, `node=NAME`, a short name such as `zone=b`, or any `LABEL=VALUE`.

    Raises ValueError.
    """
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


def is_expired(pause: Pause, now: datetime) -> bool:
    """Return whether the pause has expired."""
    return pause.until is not None and pause.until <= now


def lasting(pauses: Sequence[Pause], now: datetime) -> list[Pause]:
    """Return the pauses that have not expired."""
    return [pause for pause in pauses if not is_expired(pause, now)]


class PauseOutcome(StrEnum):
    """What an edit did to a policy."""

    PAUSED = "paused"
    PROLONGED = "prolonged"
    SHARPENED = "sharpened"
    """The pause lasted as long already; now it also revokes permits."""
    UNCHANGED = "unchanged"
    """The pause lasted at least as long already; for a resume, nothing was paused."""
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class Edit:
    """The edit of a policy's pauses.

    pauses: the new pauses of the policy.
    before: the pauses of the scope that were in force.
    expired: number of expired pauses that were removed.
    """

    outcome: PauseOutcome
    pauses: list[Pause]
    before: list[Pause]
    expired: int

    @property
    def changes(self) -> bool:
        return self.outcome is not PauseOutcome.UNCHANGED or self.expired > 0


class TooManyPauses(ValueError):
    """The policy has the greatest number of pauses."""

    def __init__(self) -> None:
        super().__init__(
            f"it has {MOST} pauses, and more it cannot have: resume one, or pause a wider scope"
        )


def paused(pauses: Sequence[Pause], wanted: Pause, now: datetime) -> Edit:
    """Return the edit that adds the pause. Raises TooManyPauses."""
    active = lasting(pauses, now)
    scope, expired = scope_of(wanted), len(pauses) - len(active)
    before = [pause for pause in active if scope_of(pause) == scope]
    others = [pause for pause in active if scope_of(pause) != scope]
    if not before:
        if len(others) >= MOST:
            raise TooManyPauses
        return Edit(PauseOutcome.PAUSED, [*others, wanted], [], expired)
    longest = max(before, key=_ends)
    sharp = any(pause.now for pause in before)
    if _ends(wanted) > _ends(longest):
        merged = wanted.model_copy(
            update={"now": wanted.now or sharp, "why": _why(wanted, longest)}
        )
        return Edit(PauseOutcome.PROLONGED, [*others, merged], before, expired)
    if wanted.now and not sharp:
        merged = longest.model_copy(update={"now": True})
        return Edit(PauseOutcome.SHARPENED, [*others, merged], before, expired)
    return Edit(PauseOutcome.UNCHANGED, [*others, *before], before, expired)


def resumed(pauses: Sequence[Pause], scope: PausedScope | None, now: datetime) -> Edit:
    """Return the edit that removes the pauses of the scope. None: all pauses."""
    active = lasting(pauses, now)
    ended = [pause for pause in active if scope is None or scope_of(pause) == scope]
    remaining = [pause for pause in active if pause not in ended]
    outcome = PauseOutcome.RESUMED if ended else PauseOutcome.UNCHANGED
    return Edit(outcome, remaining, ended, len(pauses) - len(active))


def common(lists: Sequence[Sequence[Pause]], now: datetime) -> list[Pause]:
    """Return the pauses that all policies share, each until the first of them ends.

    They apply to what no policy covers, so that a pause of the whole cluster has no gaps.
    """
    if not lists:
        return []
    scopes = [{scope_of(pause): pause for pause in lasting(each, now)} for each in lists]
    shared = [scope for scope in scopes[0] if all(scope in each for each in scopes)]
    return [min((each[scope] for each in scopes), key=_ends) for scope in shared]


def _why(wanted: Pause, old: Pause) -> str:
    """Return the new reason together with the earlier one, so that none is lost."""
    if not old.why or old.why in wanted.why:
        return wanted.why
    if not wanted.why:
        return old.why
    earlier = f"{old.by}: {old.why}" if old.by and old.by != wanted.by else old.why
    return f"{wanted.why} (before: {earlier})"[:1024]


def _ends(pause: Pause) -> tuple[bool, float]:
    """Return the sort key by end. A pause without an end is last."""
    return pause.until is None, pause.until.timestamp() if pause.until is not None else 0.0


def describe_unmatched(
    scope: PausedScope, labels_by_node: Mapping[str, Mapping[str, str]], shown: int = 5
) -> str:
    """Return why the scope would pause nothing, with the values that there are; "" if it has nodes.

    labels_by_node: labels of every node of the cluster.
    """
    if scope.kind == "Cluster":
        return ""
    if any(scope.has(name, labels) for name, labels in labels_by_node.items()):
        return ""
    if scope.kind == "Node":
        return f"node {scope.value} is not in the cluster"
    values = sorted(
        {labels[scope.label] for labels in labels_by_node.values() if scope.label in labels}
    )
    there = ", ".join(values[:shown]) + (", …" if len(values) > shown else "")
    has = f"there are: {there}" if values else f"and no node has the label {scope.label}"
    return f"no node has {scope}; {has}"
