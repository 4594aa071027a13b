"""A store of facts and the reference engine over nodes that a test makes up: no informers."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from support.clock import T0, FakeClock

from kubenode.api.v1alpha1 import HostEvent, HostProbe, NodeRemedier
from kubenode.runtime.kube.objects import Event, Node
from remedy.remedier.facts import FactStore
from rules.diagnose import Diagnoser, Diagnosis, Match
from rules.facts import FactSet
from rules.program import RuleVersion
from rules.truth import Truth

LONG_AGO = T0 - timedelta(days=30)
ZONE, RACK = "topology.kubernetes.io/zone", "kubenode.io/rack"


class Nodes:
    """A cache of Nodes that a test fills; `current` and `broken` say how far to trust it."""

    def __init__(self) -> None:
        self.cache: dict[str, Node] = {}
        self.current = True
        self.broken: set[str] = set()
        self.gaps: list[tuple[float, float]] = []

    def get(self, key: str) -> Node | None:
        return self.cache.get(key)

    def readable(self, key: str) -> bool:
        return key not in self.broken

    def fresh(self) -> bool:
        return self.current

    def unheard(self) -> Sequence[tuple[float, float]]:
        return tuple(self.gaps)


class Facts:
    """`looks` counts how often each node was judged."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.nodes = Nodes()
        self.diagnoser = Diagnoser()
        self.store = FactStore(self.nodes, lambda node: (), self.clock, accept_single_engine=True)
        self.rules: dict[str, NodeRemedier] = {}
        self.looks: dict[str, int] = {}
        self.host_events: dict[str, HostEvent] = {}
        self.probes: dict[str, HostProbe] = {}

    # -- what there is

    def load(self, **specs: dict[str, Any]) -> None:
        """Rules by name; what is not said of them does not matter."""
        made = [a_rule(name.replace("_", "-"), **spec) for name, spec in specs.items()]
        self.rules = {f"{r.metadata.name}@{r.metadata.generation}": r for r in made}
        report = self.diagnoser.load([RuleVersion(id_, rule) for id_, rule in self.rules.items()])
        assert not report.rejected, report.rejected
        self.store.rules_loaded(self.rules)

    def node(self, name: str, **parts: Any) -> Node:
        """`labels`, `annotations`, `uid`, `created`, `status`; all else are conditions, each a
        status or (status, since), heard of now.
        """
        old, new = self.nodes.cache.get(name), a_node(name, self.clock.now(), **parts)
        self.nodes.cache[name] = new
        self.store.node_changed(name, old, new)
        return new

    def gone(self, name: str) -> set[str]:
        """The node is deleted; who looks again."""
        old = self.nodes.cache.pop(name)
        self.store.node_changed(name, old, None)
        return set(self.store.learned(name, Diagnosis(name)))

    def host_event(self, name: str, class_: str, node: str = "a", **parts: Any) -> set[str]:
        """As Host Doctor writes it now; who looks again."""
        old, new = self.host_events.get(name), a_host_event(name, class_, node, self.clock, **parts)
        self.host_events[name] = new
        return set(self.store.host_event_changed(old, new))

    def alert(self, name: str, node: str = "a", **parts: Any) -> set[str]:
        parts = {"attributes": {"alertname": name}, **parts}
        told = f"{name.lower()}-{node or 'nobody'}"
        return self.host_event(told, "Alert", node, source="Alertmanager", **parts)

    def event(self, name: str, reason: str, node: str = "a", count: int = 1) -> str | None:
        about = {"kind": "Node", "name": node}
        return self._event(name, {"involvedObject": about, "reason": reason, "count": count})

    def pod_event(
        self, name: str, reason: str, message: str = "", node: str = "a", source: str = "kubelet"
    ) -> str | None:
        """As the kubelet of `node` reports it about one of its pods."""
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        by = {"component": source, "host": node}
        body = {"involvedObject": about, "source": by, "reason": reason, "message": message}
        return self._event(name, body)

    def _event(self, name: str, body: dict[str, Any]) -> str | None:
        at = self.clock.now().isoformat()
        data = {"metadata": {"name": name, "uid": name}, "type": "Warning", "lastTimestamp": at}
        return self.store.event_changed(None, msgspec.convert(data | body, Event))

    # -- what is said of it

    def facts(self, name: str = "a") -> FactSet:
        found = self.store.facts(name)
        assert found is not None
        return found

    def look(self, name: str) -> set[str]:
        """Judge one node; who looks again."""
        self.looks[name] = self.looks.get(name, 0) + 1
        return set(self.store.learned(name, self.diagnosis(name)))

    def settle(self, *names: str) -> None:
        """Judge these nodes, all if none is named, and whoever has to look again."""
        due = dict.fromkeys(names or self.nodes.cache)
        for _ in range(100 * len(self.nodes.cache)):
            if not due:
                return
            name = next(iter(due))
            del due[name]
            due |= dict.fromkeys(sorted(self.look(name)))
        raise AssertionError(f"no end of looking again: {list(due)}")

    def diagnosis(self, name: str) -> Diagnosis:
        (found,) = self.diagnoser.diagnose([self.facts(name)], self.clock.now())
        return found

    def match(self, name: str, rule: str) -> Match:
        found = self.diagnosis(name).matches
        return next(m for m in found if m.rule_id.partition("@")[0] == rule.replace("_", "-"))

    def evidence(self, name: str, rule: str) -> Truth:
        return self.match(name, rule).evidence


def a_rule(name: str, **spec: Any) -> NodeRemedier:
    given: dict[str, Any] = {"nodes": {"all": True}, **spec}
    if "infer" not in spec:
        tell = {"name": "tell", "steps": [{"notify": {"message": "look"}}]}
        given = {"mode": "Enforce", "ladder": [tell], **given}
    status = given.pop("status", {})
    metadata = {"name": name, "uid": f"uid-{name}", "generation": given.pop("generation", 1)}
    return NodeRemedier.model_validate({"metadata": metadata, "spec": given, "status": status})


def a_node(name: str, now: datetime, **parts: Any) -> Node:
    metadata = {
        "name": name,
        "uid": parts.pop("uid", f"uid-{name}"),
        "creationTimestamp": parts.pop("created", LONG_AGO).isoformat(),
        "labels": parts.pop("labels", {}),
        "annotations": parts.pop("annotations", {}),
        "deletionTimestamp": parts.pop("deleted", None),
    }
    status, spec = parts.pop("status", {}), parts.pop("spec", {})
    conditions = []
    for type_, said in {"Ready": "True", **parts}.items():
        value, since = said if isinstance(said, tuple) else (said, LONG_AGO)
        conditions.append(
            {
                "type": type_,
                "status": value,
                "lastHeartbeatTime": now.isoformat(),
                "lastTransitionTime": since.isoformat(),
            }
        )
    data = {
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "spec": spec,
        "status": {"conditions": conditions, "nodeInfo": {"bootID": "boot-1"}, **status},
    }
    return msgspec.convert(data, Node)


def a_host_event(name: str, class_: str, node: str, clock: FakeClock, **parts: Any) -> HostEvent:
    """`phase`, `firstSeen`, `lastSeen`, `seen` go into the status, all else into the spec."""
    now = clock.now().isoformat()
    status = {"phase": "Active", "firstSeen": now, "lastSeen": now, "seen": 1}
    status |= {key: parts.pop(key) for key in list(parts) if key in status}
    about = {"name": node, **parts.pop("about", {})}
    spec = {"source": "AWS", "externalID": name, "class": class_, "node": about, **parts}
    body = {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec, "status": status}
    return HostEvent.model_validate(body)


def a_probe(
    kind: str, asked: datetime, node: str = "a", lasts: timedelta = timedelta(seconds=30),
    **status: Any,
) -> HostProbe:  # fmt: skip
    name = f"{node}-{kind}-{asked:%H%M%S}"
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": asked.isoformat()}
    spec = {"agent": node, "nodeName": node, "name": kind}
    spec |= {"expiresAt": (asked + lasts).isoformat()}
    return HostProbe.model_validate({"metadata": metadata, "spec": spec, "status": status})
