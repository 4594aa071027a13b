"""Builds the fleet and the timeline that a case describes. Pure.

A condition that has lasted longer than the timeline exists from the start, as in a first
observation of a Node. One that began within it begins there, so that our clock observes the change.
An Event with a count and a window grows over that window, as real Events do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.cordon import CORDONED_BY
from simulation.cases import outside
from simulation.cases.answers import answers
from simulation.cases.form import (
    AlertSignal,
    Case,
    ConditionSignal,
    EventSignal,
    Facts,
    LogSignal,
)
from simulation.cases.limits import POOL, fleet_size
from simulation.cases.outside import PriorAnnouncement
from simulation.cases.reporters import ABOUT_PODS, UNREAD, component, severity
from simulation.cases.underway import lead
from simulation.replay.signals import NodeSnapshot
from simulation.replay.timeline import Entry, entry

MOST_GROWTH = 60
"""Updates by which an Event with many occurrences grows."""
ZONES = ("z1", "z2", "z3")
PER_RACK = 10
OURS = "a-job-of-ours"
EARLIER = timedelta(seconds=30)
"""How long before the case's alert other nodes in the same state had theirs."""


@dataclass(slots=True)
class Setting:
    """The start and the timeline of a case.

    start: when the timeline begins, at most the case's `now`.
    snapshots: each Node at the start.
    entries: the timeline up to `now`.
    before: events that Host Doctor received earlier; the decisions are made at their time.
    """

    start: datetime
    snapshots: dict[str, NodeSnapshot] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    before: list[PriorAnnouncement] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Story:
    """The case and the start of its timeline."""

    case: Case
    start: datetime

    def at(self, seconds: float) -> datetime:
        return self.case.now + timedelta(seconds=seconds)


def setting(case: Case, before: Sequence[PriorAnnouncement] = ()) -> Setting:
    """Build the setting of a case.

    before: events that were announced before. The timeline then begins with them, and the node is
        not cordoned yet.
    """
    start = case.now + timedelta(seconds=min(_first(signal) for signal in case.signals))
    start = min(start, case.now - lead(case), *(event.at for event in before))
    story = _Story(case, start)
    made = Setting(start, before=list(before))
    for index, name in enumerate(_nodes(case)):
        mine = [s for s in case.signals if getattr(s, "node", None) == name]
        _add(made, story, name, mine, case.facts if name == case.node else _other(case, index))
        made.snapshots[name] = _from_outside(
            case, name, made.snapshots[name], unmarked=bool(before)
        )
    own = [s for s in case.signals if getattr(s, "node", None) == case.node]
    size, sick = fleet_size(case), _others_sick(case)
    taken = len(made.snapshots)
    for index in range(taken, max(size, taken)):
        name = f"other-{index}"
        alike = [s.model_copy(update={"node": name}) for s in own] if index - taken < sick else []
        _add(made, story, name, alike, _other(case, index))
        if index - taken < sick:
            made.entries += _alike(case, name, start)
    for name in _cordoned(case, list(made.snapshots)):
        made.snapshots[name] = made.snapshots[name].model_copy(update={"cordoned": True})
    made.entries += outside.entries(case)
    if not before:
        made.entries += _host_events(case, start)
    probes = _grouped(answers(case))
    if probes:
        made.entries.insert(0, entry(at=start, node=case.node, probe=probes))
    if refused := _refused(case.facts):
        made.entries.insert(0, entry(at=start, node=case.node, evictions=refused))
    return made


def _alike(case: Case, name: str, start: datetime) -> Iterator[Entry]:
    """Yield alerts and answers of an unnamed node in the same state as the case's node.

    Its fault began earlier, so that the case counts it at its instant.
    """
    for signal in case.signals:
        if isinstance(signal, AlertSignal) and signal.labels.get("node") == case.node:
            theirs = signal.model_copy(update={"labels": {**signal.labels, "node": name}})
            at = case.now + timedelta(seconds=signal.at_s) - EARLIER
            yield outside.delivered(theirs, at)
    if probes := _grouped(answers(case)):
        yield entry(at=start, node=name, probe=probes)


def _first(signal: Any) -> float:
    """Return the start of a signal in seconds relative to `now`."""
    window = signal.window_s or 0.0 if isinstance(signal, EventSignal) else 0.0
    return float(signal.at_s) - float(window)


def _nodes(case: Case) -> list[str]:
    """Return the case's node, then the others that its signals name."""
    about = ConditionSignal | EventSignal | LogSignal
    named = [s.node for s in case.signals if isinstance(s, about)]
    return list(dict.fromkeys([case.node, *named, *case.facts.node_of_instance.values()]))


def _others_sick(case: Case) -> int:
    """Return how many unnamed nodes are in the same state as the case's node."""
    facts = case.facts
    unhealthy = facts.fleet.unhealthy if facts.fleet is not None else 0
    return max((facts.nodes_same_fault or 1) - 1, unhealthy - 1, 0)


def _cordoned(case: Case, names: list[str]) -> list[str]:
    """Return cordoned nodes: one after a failed repair of the pool, and recently cordoned ones."""
    failed = names[-1:] if case.facts.pool_last_repair == "failed" else []
    fleet = case.facts.fleet
    return [*failed, *names[1 : 1 + (fleet.cordoned_in_window if fleet is not None else 0)]]


def _other(case: Case, index: int) -> Facts:
    """Return the facts of another node of the pool, perhaps a control plane node of the case."""
    masters = case.facts.control_plane_total or 0
    if "control-plane" in case.facts.node_roles:
        masters -= 1
    roles = ["control-plane"] if index <= masters else []
    return Facts.model_validate({"node_roles": roles, "pool": case.facts.pool})


def _add(made: Setting, story: _Story, name: str, signals: Sequence[Any], facts: Facts) -> None:
    conditions = [s for s in signals if isinstance(s, ConditionSignal)]
    there: dict[str, dict[str, Any]] = {}
    for signal in conditions:
        since = None if signal.held_s is None else story.at(signal.at_s - signal.held_s)
        at = max(since or story.at(signal.at_s), story.start)
        body = _condition(signal, since, story)
        if at == story.start and signal.type not in there:
            there[signal.type] = body
        else:
            made.entries.append(entry(at=at, node=name, condition=body))
        if signal.heartbeat_age_s is not None:
            silent = max(story.at(signal.at_s - signal.heartbeat_age_s), story.start)
            made.entries.append(entry(at=silent, node=name, silent=[signal.type]))
    made.snapshots[name] = _make_snapshot(name, len(made.snapshots), facts, list(there.values()))
    for number, signal in enumerate(signals):
        if isinstance(signal, EventSignal):
            made.entries += _growing(signal, name, number, story)
        elif isinstance(signal, LogSignal):
            lines = {"source": signal.source, "text": signal.text}
            made.entries.append(entry(at=story.at(signal.at_s), node=name, log=lines))


def _from_outside(case: Case, name: str, snapshot: NodeSnapshot, *, unmarked: bool) -> NodeSnapshot:
    """Return the snapshot with addresses and provider ID.

    unmarked: remove our cordon, which is still to come.
    """
    update: dict[str, Any] = {"addresses": outside.addresses(case, name)}
    if name == case.node:
        update["provider_id"] = outside.provider_id(case)
    if name == case.node and unmarked and case.facts.cordoned_by == "kubenode":
        notes = {k: v for k, v in snapshot.annotations.items() if k != CORDONED_BY}
        update |= {"cordoned": False, "annotations": notes}
    return snapshot.model_copy(update=update)


def _condition(signal: ConditionSignal, since: datetime | None, story: _Story) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": signal.type,
        "status": signal.status,
        "reason": signal.reason,
        "message": signal.message,
    }
    if since is not None:
        body["since"] = since
    if signal.heartbeat_age_s is not None:
        body["heard"] = story.at(signal.at_s - signal.heartbeat_age_s)
    return body


def _growing(signal: EventSignal, name: str, number: int, story: _Story) -> Iterator[Entry]:
    """Yield the Event as its reporter updates it until it has its count."""
    if signal.reason in UNREAD:
        return
    end, window = story.at(signal.at_s), timedelta(seconds=signal.window_s or 0)
    steps = min(signal.count, MOST_GROWTH) if window else 1
    for step in range(1, steps + 1):
        share = (step - 1) / (steps - 1) if steps > 1 else 1.0
        at = end - window * (1 - share)
        body: dict[str, Any] = {
            "reason": signal.reason,
            "message": signal.message,
            "source": component(signal.reason),
            "severity": severity(signal.reason),
            "count": max(signal.count * step // steps, 1),
            "first": end - window,
            "uid": f"{story.case.id}-{name}-{number}",
            "aboutPod": signal.reason in ABOUT_PODS,
        }
        yield entry(at=at, node=name, event=body)


def _host_events(case: Case, start: datetime) -> Iterator[Entry]:
    """Yield events that a cloud announced earlier, if we have a class for them."""
    for event in case.facts.open_host_events:
        class_ = outside.class_of(event)
        if class_ is not None:
            phase = "Active" if event.phase.lower() in outside.ACTIVE else "Scheduled"
            source = outside.SOURCES[event.provider]
            body = {"class": class_.value, "source": source, "phase": phase}
            yield entry(at=start, node=case.node, hostEvent=body)


def _refused(facts: Facts) -> dict[str, str]:
    """Return the answer to evictions, {} if they are granted."""
    if facts.eviction_denied_by is not None:
        return {"deniedBy": facts.eviction_denied_by}
    budget = next((pdb.name for pdb in facts.pdb if not pdb.disruptions_allowed), None)
    return {"budget": f"default/{budget}"} if budget is not None else {}


def _make_snapshot(
    name: str, index: int, facts: Facts, conditions: Sequence[dict[str, Any]]
) -> NodeSnapshot:
    labels = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": ZONES[index % len(ZONES)],
        "kubenode.io/rack": f"r{index // PER_RACK}",
        **{f"node-role.kubernetes.io/{role}": "" for role in facts.node_roles},
    }
    if facts.pool is not None:
        labels[POOL] = facts.pool
    annotations = dict(facts.annotations)
    if facts.cordoned_by == "kubenode":
        annotations[CORDONED_BY] = OURS
    taints = [{"key": key, "effect": effect} for key, effect in _taints(facts.taints)]
    return NodeSnapshot.model_validate(
        {
            "uid": uid_of(name),
            "labels": labels,
            "annotations": annotations,
            "taints": taints,
            "conditions": conditions,
            "cordoned": bool(facts.unschedulable_before or facts.cordoned_by),
            "provider_id": facts.instance or "",
        }
    )


def uid_of(node: str) -> str:
    return f"{node}-uid"


def _taints(taints: Sequence[str]) -> list[tuple[str, str]]:
    split = [taint.partition(":") for taint in taints]
    return [(key, effect or "NoSchedule") for key, _, effect in split]


def _grouped(by_name: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Group the answers by probe."""
    groups: dict[str, dict[str, Any]] = {}
    for name, value in by_name.items():
        probe, _, field_name = name.partition(".")
        groups.setdefault(probe, {})[field_name] = value
    return groups
