"""Breakers by scope: state and reason, when they become half-open, and their quota. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.natural import natural
from defender.dashboard.scene import Scene
from defender.decision.breaker.step import BreakerTimes, half_opens_at, quota
from defender.decision.breaker.watch import BreakerWatch
from defender.decision.census import CLUSTER
from kubenode.api.duration import format_duration
from kubenode.api.names import list_first
from kubenode.api.v1alpha1.defenderpolicy import Breaker, BreakerState
from kubenode.runtime.site.parts import PagePart, Summary

MOST = 200
HISTORY = 30
_PLACE = {BreakerState.OPEN: 0, BreakerState.HALF_OPEN: 1, BreakerState.CLOSED: 2}


@dataclass(frozen=True, slots=True)
class ScopeCard:
    """One breaker. `next_at`: when the state may change by itself at the earliest; `then`: what
    happens.
    """

    template: ClassVar[str] = "parts/breaker.html"
    key: str
    state: str
    since: datetime | None
    why: str
    unhealthy: int
    members: int
    full: int
    next_at: datetime | None = None
    then: str = ""


@dataclass(frozen=True, slots=True)
class PolicyHead:
    """Head of a policy's breakers: what opens them and how they resume."""

    template: ClassVar[str] = "parts/breakers.html"
    policy: str
    trips: str
    opens: str
    resumes: str
    reserved: int
    key: str = "head"


@dataclass(frozen=True, slots=True)
class CauseRow:
    """One common cause."""

    template: ClassVar[str] = "parts/cause.html"
    key: str
    cause: str
    why: str


@dataclass(frozen=True, slots=True)
class BreakerTransition:
    """One change of a breaker."""

    template: ClassVar[str] = "parts/change.html"
    key: str
    policy: str
    scope: str
    state: str
    since: datetime
    why: str


@dataclass(frozen=True, slots=True)
class FrozenRow:
    """A freeze of the control path."""

    template: ClassVar[str] = "parts/frozen.html"
    since: datetime
    why: str
    key: str = "frozen"


def view(scene: Scene) -> dict[str, Sequence[PagePart]]:
    breakers = scene.control.breakers
    frozen = breakers.control_path.frozen
    slots: dict[str, Sequence[PagePart]] = {
        "frozen": [FrozenRow(frozen.since, frozen.why)] if frozen else [],
    }
    changes: list[BreakerTransition] = []
    cards: list[ScopeCard] = []
    for watch in sorted(ruling_watches(scene), key=lambda watch: watch.policy.name):
        name = watch.policy.name
        mine = [_card(watch, scope, scene.now) for scope in _scopes(scene, watch)]
        mine.sort(key=lambda card: (_PLACE[BreakerState(card.state)], natural(card.key)))
        cards += mine
        slots[f"head {name}"] = [_head(name, watch.spec.breaker, watch.pace)]
        slots[f"scopes {name}"] = mine[:MOST]
        slots[f"causes {name}"] = [
            CauseRow(f"{cause}={value}", f"{cause} {value}", why)
            for (cause, value), why in sorted(breakers.causes(name).items())
        ]
        changes += [
            BreakerTransition(
                f"{name} {c.scope} {c.since.isoformat()} {c.state}",
                name,
                c.scope,
                c.state,
                c.since,
                c.why,
            )
            for c in watch.changes
        ]
    changes.sort(key=lambda change: change.since, reverse=True)
    slots["history"] = list({change.key: change for change in changes}.values())[:HISTORY]
    slots["summary"] = [_summary(cards, frozen is not None)]
    return slots


def ruling_watches(scene: Scene) -> list[BreakerWatch]:
    """Return the breakers of the policies in force. The built-in policy counts only if it is the
    only one.
    """
    watches = list(scene.control.breakers.watches())
    ours = {policy.name for policy in scene.control.policies}
    return [watch for watch in watches if watch.policy.name in ours] or watches


def _scopes(scene: Scene, watch: BreakerWatch) -> list[str]:
    """Return the scopes that have a breaker: the cluster, zones, and those that a limit or a state
    names.
    """
    name = watch.policy.name
    scopes = {scope for policy, scope in scene.control.census.groups() if policy == name}
    if "topology.kubernetes.io/zone" in watch.labels:
        scopes |= {f"topology.kubernetes.io/zone={z}" for z, _ in scene.fleet.racks() if z}
    scopes |= watch.states.keys()
    if None in watch.labels:
        scopes.add(CLUSTER)
    return [scope for scope in scopes if _label(scope) in watch.labels]


def _label(scope: str) -> str | None:
    return None if scope == CLUSTER else scope.partition("=")[0]


def _card(watch: BreakerWatch, scope: str, now: datetime) -> ScopeCard:
    state, group, breaker = watch.state(scope), watch.group(scope), watch.spec.breaker
    members = group.members
    full = min(100, 100 * group.unhealthy // members) if members else 0
    next_at, then = None, ""
    if state.state is BreakerState.OPEN and state.since is not None:
        next_at = half_opens_at(state, breaker, now, watch.pace) if state.calm_since else None
        then = "half-opens, if it stays calm" if next_at else _calms(breaker, watch.pace)
    elif state.state is BreakerState.HALF_OPEN and state.since is not None:
        many = quota(state, breaker.resume, now)
        steps = (now - state.since) // breaker.resume.every + 1
        next_at = state.since + breaker.resume.every * steps
        then = f"{many} at once may act now; times {breaker.resume.factor}"
    return ScopeCard(
        scope, state.state, state.since, state.why, group.unhealthy, members, full, next_at, then
    )


def _calms(breaker: Breaker, pace: BreakerTimes) -> str:
    return (
        "half-opens when less than half of what opens it has been wrong for"
        f" {format_duration(pace.calm)}, and no sooner than {format_duration(breaker.open)} after"
        " it opened"
    )


def _head(name: str, breaker: Breaker, pace: BreakerTimes) -> PolicyHead:
    trip, resume = breaker.trip, breaker.resume
    per = format_duration(trip.escalations.per)
    return PolicyHead(
        name,
        f"opens at {trip.unhealthy_ratio} unhealthy, {trip.new_faults_per10m} new faults in"
        f" {format_duration(pace.new)},"
        f" or {trip.escalations.count} jobs of a rule that climb to one rung in {per};"
        f" never below {trip.min_nodes} nodes",
        f"stays open for {format_duration(breaker.open)} at least",
        f"then {resume.start} at once, times {resume.factor} every"
        f" {format_duration(resume.every)}, until the limits rule again",
        breaker.reserved,
    )


def _summary(cards: list[ScopeCard], frozen: bool) -> Summary:
    if frozen:
        return Summary("The control path is down: everything is frozen.", False)
    opened = [card.key for card in cards if card.state == BreakerState.OPEN]
    half = [card.key for card in cards if card.state == BreakerState.HALF_OPEN]
    if opened:
        single = len(opened) == 1
        return Summary(
            f"Open: {_few(opened)}. Nothing is disrupted {'there' if single else 'in these'};"
            " uncordon, release, cancel and verify go on.",
            False,
        )
    if half:
        return Summary(f"Half-open: {_few(half)}. A few acts at a time are tried.", False)
    return Summary("All breakers are closed.", True)


def _few(scopes: list[str]) -> str:
    return list_first(scopes, 4)
