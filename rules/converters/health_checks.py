"""Imports a NodeHealthCheck or a MachineHealthCheck as a rule. Pure.

A field without an equivalent becomes a note beside the rule. An imported rule has mode DryRun; a
person enables it.

Sources: medik8s/node-healthcheck-operator api/v1alpha1 (Apache-2.0), kubernetes-sigs/cluster-api
api/v1beta1 and api/core/v1beta2 (Apache-2.0), OpenShift machine.openshift.io/v1beta1.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kubenode.api.base import API_VERSION
from kubenode.api.duration import format_duration
from rules.converters.fields import CannotImport, Data, as_list, as_map, duration, read_duration
from rules.converters.ladders import ImportNote, escalating, map_template, owner_remediated

Object = dict[str, Any]

READY = ({"type": "Ready", "status": "False"}, {"type": "Ready", "status": "Unknown"})
DEFAULT_SECONDS = 300
"""Default of both systems for conditions that are not given."""
PAUSED = "cluster.x-k8s.io/paused"


@dataclass(slots=True)
class Imported:
    """A NodeRemedier as data, a DefenderPolicy if limits were given, and notes about the rest."""

    rule: Object
    policy: Object | None = None
    notes: list[ImportNote] = field(default_factory=list)


def imported(data: object) -> Imported:
    """Import the object. Raises CannotImport for another kind, or if no rule can be made of it."""
    if not isinstance(data, Mapping):
        raise CannotImport("", "no object: give a NodeHealthCheck or a MachineHealthCheck")
    group = str(data.get("apiVersion", "")).partition("/")[0]
    match (group, data.get("kind")):
        case ("remediation.medik8s.io", "NodeHealthCheck"):
            return _Import(data).node_health_check()
        case ("cluster.x-k8s.io" | "machine.openshift.io", "MachineHealthCheck"):
            return _Import(data).machine_health_check(group)
        case _:
            pass
    what = f"{data.get('kind')!r} of {data.get('apiVersion')!r} is not known"
    raise CannotImport(
        "kind",
        f"{what}: give a NodeHealthCheck of remediation.medik8s.io, or a MachineHealthCheck of"
        " cluster.x-k8s.io or machine.openshift.io",
    )


class _Import:
    """Import of one object. `_used`: fields of the spec that were read."""

    def __init__(self, data: Data) -> None:
        self._spec = as_map(data.get("spec"), "spec")
        metadata = as_map(data.get("metadata"), "metadata")
        self._annotations = as_map(metadata.get("annotations"), "metadata.annotations")
        self._name = str(metadata.get("name") or "")
        if not self._name:
            raise CannotImport("metadata.name", "missing: give the object a name")
        self._notes: list[ImportNote] = []
        self._used: set[str] = set()
        self._guards: list[Object] = [
            {"fact": {"name": "maintenance.active"}},
            {"fact": {"name": "node.foreignOwner"}},
        ]

    # -- the two kinds

    def node_health_check(self) -> Imported:
        conditions = self._conditions("unhealthyConditions", self._get("unhealthyConditions"))
        nodes = self._nodes(self._get("selector"))
        limit = self._limit("maxUnhealthy", self._get("maxUnhealthy"), healthy=False)
        least = self._get("minHealthy")
        if limit is None:
            limit = self._limit("minHealthy", "51%" if least is None else least, healthy=True)
        ladder = self._remediations()
        self._healthy_delay(ladder)
        policy = self._policy(nodes, limit, self._get("stormCooldownDuration"))
        mode = "DryRun"
        if requests := self._get("pauseRequests"):
            mode = "Off"
            by = ", ".join(map(str, as_list(requests, "spec.pauseRequests")))
            self._note("spec.pauseRequests", f"paused by {by}: mode Off")
        return self._made(nodes, conditions, ladder, policy, mode)

    def machine_health_check(self, group: str) -> Imported:
        checks = as_map(self._get("checks"), "spec.checks")
        remedies = as_map(self._get("remediation"), "spec.remediation")
        trigger = as_map(remedies.get("triggerIf"), "spec.remediation.triggerIf")
        path = "unhealthyConditions"
        given = self._get(path)
        if given is None and "unhealthyNodeConditions" in checks:
            path, given = "checks.unhealthyNodeConditions", checks["unhealthyNodeConditions"]
        if given is None and (checks.get("unhealthyMachineConditions") or checks):
            self._without_equivalent(checks)
            raise CannotImport(
                "spec.checks", "names no condition of a Node, and a rule reads Nodes: write one"
            )
        conditions = self._conditions(path, given)
        self._without_equivalent(checks)
        nodes = self._machines(self._get("selector"))
        self._range(self._get("unhealthyRange") or trigger.get("unhealthyInRange"))
        most = self._get("maxUnhealthy")
        most = trigger.get("unhealthyLessThanOrEqualTo") if most is None else most
        limit = self._limit("maxUnhealthy", most, healthy=False)
        template = self._get("remediationTemplate") or remedies.get("templateRef")
        strategy = str(self._annotations.get("machine.openshift.io/remediation-strategy", ""))
        if template:
            ladder = [map_template(as_map(template, "remediationTemplate"), 0, self._notes)]
        else:
            ladder = [owner_remediated(strategy, group, self._notes)]
        if cluster := self._get("clusterName"):
            self._note("spec.clusterName", f"install the rule in the cluster {cluster} itself")
        self._startup(checks)
        mode = "Off" if PAUSED in self._annotations else "DryRun"
        return self._made(nodes, conditions, ladder, self._policy(nodes, limit, None), mode)

    # -- evidence

    def _conditions(self, path: str, given: object) -> list[Object]:
        if given is None:
            seconds = {"timeoutSeconds": DEFAULT_SECONDS}
            given = [{**ready, **seconds} for ready in READY]
            self._note(f"spec.{path}", "not given: Ready False or Unknown for 5m, the default")
        leaves = []
        for number, item in enumerate(as_list(given, f"spec.{path}")):
            at = f"spec.{path}[{number}]"
            condition = as_map(item, at)
            if not condition.get("type"):
                raise CannotImport(f"{at}.type", "missing: name the condition")
            leaves.append(
                {
                    "condition": {
                        "type": str(condition["type"]),
                        "status": str(condition.get("status", "True")),
                        "for": format_duration(read_duration(condition, at)),
                    }
                }
            )
        if not leaves:
            raise CannotImport(f"spec.{path}", "empty: name at least one condition")
        return leaves

    def _without_equivalent(self, checks: Data) -> None:
        for entry in _maps(checks, "unhealthyMachineConditions"):
            condition = f"{entry.get('type')}={entry.get('status')}"
            text = f"{condition}: a condition of the Machine, not the Node"
            self._note("spec.checks.unhealthyMachineConditions", text)
        for entry in _maps(checks, "unhealthyExpressions"):
            text = f"{entry.get('expression')}: write it as leaves of `when`"
            self._note("spec.checks.unhealthyExpressions", text)

    # -- nodes

    def _nodes(self, selector: object) -> Object:
        given = as_map(selector, "spec.selector")
        terms = {k: v for k, v in given.items() if k in ("matchLabels", "matchExpressions") and v}
        if not terms:
            self._note("spec.selector", "empty, which meant every node: nodes.all is true")
            return {"all": True}
        return {"selector": terms}

    def _machines(self, selector: object) -> Object:
        nodes = self._nodes(selector)
        if "selector" in nodes:
            self._note(
                "spec.selector",
                "these were labels of Machines: give the Nodes the same labels, or name others;"
                " until then the rule matches no node",
            )
        return nodes

    # -- limits

    def _limit(self, path: str, given: object, *, healthy: bool) -> int | str | None:
        """Return minHealthy for a policy; turn a count of unhealthy nodes into a guard and return
        None.

        A count has no equivalent in the policy, because the total number of nodes is unknown.
        """
        if given is None:
            return None
        text = str(given)
        if match := re.fullmatch(r"(100|[0-9]{1,2})%", text):
            share = int(match[1])
            return f"{share if healthy else 100 - share}%"
        if not text.isdecimal():
            raise CannotImport(f"spec.{path}", f"{text!r} is no share: write 40% or a whole number")
        if healthy:
            return int(text)
        self._guards.append({"fact": {"name": "cluster.unhealthy", "above": int(text)}})
        self._note(
            f"spec.{path}",
            f"{text} nodes: a guard on cluster.unhealthy, which counts all nodes of the cluster",
        )
        return None

    def _range(self, given: object) -> None:
        if not given:
            return
        match = re.fullmatch(r"\[([0-9]+)-([0-9]+)\]", str(given))
        if match is None:
            raise CannotImport("spec.unhealthyRange", f"{given!r} is no range: write [3-5]")
        low, high = int(match[1]), int(match[2])
        self._guards.append({"fact": {"name": "cluster.unhealthy", "below": low}})
        self._guards.append({"fact": {"name": "cluster.unhealthy", "above": high}})
        self._note(
            "spec.unhealthyRange",
            f"{given}: guards on cluster.unhealthy, which counts all nodes of the cluster",
        )

    def _policy(self, nodes: Object, limit: int | str | None, storm: object) -> Object | None:
        if limit is None:
            if storm is not None:
                self._note("spec.stormCooldownDuration", "no share was given that it could follow")
            return None
        labels = nodes.get("selector", {}).get("matchLabels", {})
        scope: Object = {"scope": "Cluster"}
        if len(labels) == 1 and len(nodes["selector"]) == 1:
            scope = {"scope": "Label", "label": next(iter(labels))}
        elif "selector" in nodes:
            self._note(
                "spec.minHealthy",
                "was counted over the selected nodes; scope Cluster counts all nodes: write a limit"
                " of scope Label if one label names them",
            )
        limits = [{**scope, "minHealthy": limit}]
        spec: Object = {"operations": ["Repair"], "nodes": nodes, "limits": limits}
        if storm is not None:
            spec["breaker"] = {"open": format_duration(duration(storm, "stormCooldownDuration"))}
            text = "the breaker stays open at least so long; it opens by its own `trip`"
            self._note("spec.stormCooldownDuration", text)
        return {
            "apiVersion": API_VERSION,
            "kind": "DefenderPolicy",
            "metadata": {"name": f"imported-{self._name}"[:253].rstrip("-.")},
            "spec": spec,
        }

    # -- ladder

    def _remediations(self) -> list[Object]:
        several = self._get("escalatingRemediations")
        template = self._get("remediationTemplate")
        if several:
            return escalating(as_list(several, "spec.escalatingRemediations"), self._notes)
        if template:
            return [map_template(as_map(template, "spec.remediationTemplate"), 0, self._notes)]
        raise CannotImport("spec.remediationTemplate", "missing: name what repairs the node")

    def _healthy_delay(self, ladder: Sequence[Object]) -> None:
        given = self._get("healthyDelay")
        if given is None:
            return
        if str(given).startswith("-"):
            text = "negative: a person had to decide; the rule ends in NeedsHuman by onGiveUp Hold"
            self._note("spec.healthyDelay", text)
            return
        delay = duration(given, "healthyDelay")
        for rung in ladder:
            verify = rung.setdefault("verify", {})
            own = duration(verify["timeout"], "timeout") if verify else timedelta(minutes=15)
            verify |= {"for": format_duration(delay), "timeout": format_duration(delay + own)}

    def _startup(self, checks: Data) -> None:
        seconds = checks.get("nodeStartupTimeoutSeconds")
        given = self._get("nodeStartupTimeout") or (f"{seconds}s" if seconds is not None else None)
        if given is not None:
            text = f"{given}: Machines that never got a Node are not a rule's matter"
            self._note("spec.nodeStartupTimeout", text)

    # -- all of it

    def _made(
        self,
        nodes: Object,
        conditions: list[Object],
        ladder: list[Object],
        policy: Object | None,
        mode: str,
    ) -> Imported:
        for name in self._spec:
            if name not in self._used:
                self._note(f"spec.{name}", "has no equivalent and was left out")
        only_ready = all(condition["condition"]["type"] == "Ready" for condition in conditions)
        spec: Object = {"mode": mode, "priority": 500}
        spec |= {"faultClass": "node_not_ready"} if only_ready else {}
        spec |= {
            "nodes": nodes,
            "when": {"any": conditions},
            "unless": {"any": self._guards},
            "onGiveUp": "Hold",
            "ladder": ladder,
        }
        rule: Object = {
            "apiVersion": API_VERSION,
            "kind": "NodeRemedier",
            "metadata": {"name": self._name},
            "spec": spec,
        }
        return Imported(rule, policy, self._notes)

    def _get(self, name: str) -> Any:
        self._used.add(name)
        return self._spec.get(name)

    def _note(self, path: str, text: str) -> None:
        self._notes.append(ImportNote(path, text))


def _maps(checks: Data, name: str) -> list[Data]:
    path = f"spec.checks.{name}"
    return [as_map(item, path) for item in as_list(checks.get(name) or [], path)]
