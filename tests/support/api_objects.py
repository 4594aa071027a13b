"""One good object of every kind as a person writes it, and one bad object for every rule.

The bad ones go through the models (unit) and through a real kube-apiserver (integration): both
must refuse them and name the same field.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

API = "kubenode.io/v1alpha1"
Object = dict[str, Any]


def remedier() -> Object:
    """The example of the API's design, every field written out."""
    return {
        "apiVersion": API,
        "kind": "NodeRemedier",
        "metadata": {"name": "kernel-deadlock"},
        "spec": {
            "mode": "Enforce",
            "priority": 500,
            "severity": "Critical",
            "faultClass": "kernel_deadlock",
            "nodes": {
                "selector": {"matchLabels": {"kubernetes.io/os": "linux"}},
                "exclude": {
                    "matchExpressions": [
                        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
                    ]
                },
            },
            "when": {
                "all": [
                    {
                        "condition": {
                            "type": "KernelDeadlock",
                            "status": "True",
                            "for": "30s",
                            "maxAge": "10m",
                        }
                    },
                    {
                        "any": [
                            {"condition": {"type": "Ready", "status": "Unknown", "for": "1m"}},
                            {"event": {"reason": "KernelOops", "count": 3, "within": "10m"}},
                        ]
                    },
                ]
            },
            "unless": {
                "any": [
                    {"fact": {"name": "maintenance.active"}},
                    {"fact": {"name": "zone.unhealthyRatio", "above": 0.4}},
                    {"fact": {"name": "node.foreignOwner"}},
                ]
            },
            "groupWait": "10s",
            "startupGrace": "5m",
            "cooldown": "30m",
            "relapse": {"within": "24h"},
            "attempts": {"max": 3, "within": "24h"},
            "onGiveUp": "Hold",
            "ladder": [
                {
                    "name": "reboot",
                    "disruption": "",
                    "steps": [
                        {"cordon": {}},
                        {
                            "collect": {
                                "bundle": ["dmesg", "journal", "runtime"],
                                "timeout": "2m",
                                "onFailure": "Continue",
                            }
                        },
                        {
                            "migrate": {
                                "timeout": "15m",
                                "gracePeriod": "pod",
                                "onTimeout": "Yield",
                                "podPolicies": [],
                            }
                        },
                        {"reboot": {"via": ["Agent", "Provider"], "timeout": "10m"}},
                    ],
                    "verify": {
                        "for": "2m",
                        "timeout": "15m",
                        "settle": "3m",
                        "cleared": {},
                        "checks": [
                            {
                                "agent": {
                                    "action": "RunCheck",
                                    "check": "d-state-tasks",
                                    "timeout": "30s",
                                }
                            }
                        ],
                        "probation": "24h",
                    },
                },
                {
                    "name": "replace",
                    "steps": [
                        {"cordon": {}},
                        {"migrate": {"timeout": "15m"}},
                        {
                            "replace": {
                                "via": ["Machine", "ClusterAPI", "Karpenter", "InstanceGroup"],
                                "surge": "None",
                                "timeout": "30m",
                            }
                        },
                    ],
                },
            ],
            "notify": ["oncall"],
        },
    }


def inferring_remedier() -> Object:
    """The design's second example, which names no mode."""
    return {
        "apiVersion": API,
        "kind": "NodeRemedier",
        "metadata": {"name": "rack-power"},
        "spec": {
            "nodes": {"all": True},
            "when": {
                "all": [
                    {"fact": {"name": "rack.sameFault", "above": 3}},
                    {"condition": {"type": "Ready", "status": "Unknown", "for": "30s"}},
                ]
            },
            "infer": {
                "fact": "rack.suspectPowerLoss",
                "scope": "Rack",
                "value": True,
                "for": "10m",
            },
        },
    }


def job() -> Object:
    rule = remedier()["spec"]
    return {
        "apiVersion": API,
        "kind": "RemedyOperationJob",
        "metadata": {
            "name": "n00042-6f1c9a20b4",
            "labels": {"kubenode.io/remedier": "kernel-deadlock"},
        },
        "spec": {
            "nodeName": "n00042",
            "agent": "n00042",
            "nodeUID": "5b1a",
            "remedier": {"name": "kernel-deadlock", "uid": "77aa", "generation": 7},
            "trigger": {
                "firstTrue": "2026-11-21T01:59:09Z",
                "facts": [
                    {
                        "atom": "condition KernelDeadlock True 30s",
                        "value": True,
                        "observed": "2026-11-21T01:59:39Z",
                        "source": "NPD",
                    }
                ],
                "explanation": "KernelDeadlock True for 30s",
            },
            "mode": "Enforce",
            "severity": "Critical",
            "faultClass": "kernel_deadlock",
            "deadline": None,
            "previous": "",
            "startRung": 0,
            "ladder": rule["ladder"],
            "when": rule["when"],
            "unless": rule["unless"],
            "approval": {"required": False, "expiresAfter": "24h"},
            "approvals": [],
            "cancel": False,
            "ttlAfterFinished": "72h",
        },
    }


def probe() -> Object:
    return {
        "apiVersion": API,
        "kind": "HostProbe",
        "metadata": {"name": "n00042-disk"},
        "spec": {
            "agent": "n00042",
            "nodeName": "n00042",
            "name": "disk",
            "args": {"path": "/var/lib"},
            "expiresAt": "2026-11-21T02:00:09Z",
        },
    }


def agent_assignment() -> Object:
    return {
        "apiVersion": API,
        "kind": "AgentAssignment",
        "metadata": {"name": "n00042"},
        "spec": {
            "jobs": [{"name": "n00042-1a2b3c4d5e", "request": "r0s1a1"}, {"name": "n00042-f"}],
            "probes": ["n00042-runtime-9f8e7d"],
        },
    }


def member_cluster() -> Object:
    return {
        "apiVersion": API,
        "kind": "MemberCluster",
        "metadata": {"name": "sh-03", "labels": {"stage": "production"}},
        "spec": {"kubeconfigRef": "sh-03", "paused": False},
    }


def node_record() -> Object:
    return {
        "apiVersion": API,
        "kind": "NodeRecord",
        "metadata": {"name": "n00042"},
        "spec": {
            "nodeUID": "5f7b2a4e-0000-4000-8000-000000000042",
            "jobs": [
                {
                    "name": "n00042-1a2b3c4d5e",
                    "remedier": "kubelet-down",
                    "generation": 3,
                    "faultClass": "kubelet_down",
                    "phase": "Cancelled",
                    "reason": "PersonCancelled",
                    "created": "2026-11-21T02:00:00Z",
                    "closed": "2026-11-21T02:05:00Z",
                    "acted": True,
                    "actedAt": "2026-11-21T02:03:00Z",
                    "rung": 1,
                    "probation": "24h",
                    "eventsUntil": "2026-11-21T01:59:00Z",
                    "falseSince": "2026-11-21T02:30:00Z",
                    "evidence": '{"condition":{"type":"Ready","status":"False"}}',
                }
            ],
            "dryRuns": [
                {
                    "remedier": "disk-wearing-out",
                    "faultClass": "disk_worn",
                    "count": 7,
                    "first": "2026-11-01T00:00:00Z",
                    "falseSince": "2026-11-21T02:30:00Z",
                    "recent": [
                        {
                            "at": "2026-11-21T02:00:00Z",
                            "firstTrue": "2026-11-21T01:58:00Z",
                            "class": "Node",
                            "rung": "drain",
                            "said": "Kube Defender would have granted it",
                        }
                    ],
                }
            ],
        },
    }


def host_event() -> Object:
    return {
        "apiVersion": API,
        "kind": "HostEvent",
        "metadata": {"name": "aws-i-0abc-event-0d59937288b749b32"},
        "spec": {
            "source": "AWS",
            "externalID": "instance-event-0d59937288b749b32",
            "class": "Reboot",
            "severity": "Warning",
            "node": {"name": "n00042", "providerID": "aws:///eu-1a/i-0abc", "uid": "5b1a"},
            "notBefore": "2026-11-21T03:00:00Z",
            "attributes": {"alertname": "NodeDiskIOError"},
            "message": "scheduled reboot",
        },
    }


def policy() -> Object:
    """The default policy of the design, every field written out."""
    return {
        "apiVersion": API,
        "kind": "DefenderPolicy",
        "metadata": {"name": "default"},
        "spec": {
            "operations": ["Repair", "Evacuate", "Replace", "Rollout", "ScaleIn", "Delete"],
            "nodes": {"all": True},
            "limits": [
                {
                    "scope": "Cluster",
                    "maxConcurrent": "2%",
                    "minHealthy": "80%",
                    "rate": {"count": 60, "per": "1h", "burst": 5},
                },
                {
                    "scope": "Label",
                    "label": "topology.kubernetes.io/zone",
                    "maxConcurrent": "2%",
                    "minHealthy": "60%",
                },
                {"scope": "Label", "label": "kubenode.io/pool", "minHealthy": 2},
                {"scope": "ControlPlane", "maxConcurrent": 1, "othersHealthy": True},
                {
                    "scope": "Fleet",
                    "group": "prod",
                    "maxConcurrent": "1%",
                    "onUnreachable": "LocalShare",
                },
            ],
            "perNode": {"maxActs": 3, "within": "24h"},
            "smallPool": {"nodes": 5},
            "breaker": {
                "scopes": [
                    {"scope": "Cluster"},
                    {"scope": "Label", "label": "topology.kubernetes.io/zone"},
                ],
                "trip": {
                    "unhealthyRatio": "30%",
                    "minNodes": 3,
                    "newFaultsPer10m": "10%",
                    "escalations": {"count": 3, "per": "1h"},
                },
                "commonCause": {
                    "groupBy": ["componentRevision", "kernel", "image"],
                    "minFaults": 5,
                    "lift": 5,
                    "within": "1h",
                },
                "open": "10m",
                "resume": {"start": 1, "factor": 2, "every": "5m"},
                "reserved": 1,
            },
            "workload": {"maxDisplacedPending": 50, "respectPDB": True},
            "windows": [
                {
                    "days": ["Mon", "Tue", "Wed", "Thu"],
                    "from": "09:00",
                    "to": "16:00",
                    "timeZone": "Europe/Berlin",
                    "for": ["Rollout"],
                }
            ],
            "pauses": [{"scope": "Node", "value": "n00042", "by": "ann", "why": "disk swap"}],
            "guard": {
                "deletions": "Audit",
                "cordons": "Off",
                "evictions": "Off",
                "overrideGroups": ["system:masters"],
            },
            "exclude": {"matchLabels": {"kubenode.io/hands-off": "true"}},
            "acknowledgeUnlimited": False,
        },
    }


def permit() -> Object:
    return {
        "apiVersion": API,
        "kind": "Permit",
        "metadata": {"name": "n00042-9b2d"},
        "spec": {
            "operation": "Repair",
            "class": "Node",
            "nodeName": "n00042",
            "holder": {"kind": "RemedyOperationJob", "name": "n00042-6f1c9a20b4", "uid": "9b2d"},
            "policyGeneration": 1,
        },
    }


def machine() -> Object:
    """The example of the API's design, every field of the spec written out."""
    return {
        "apiVersion": API,
        "kind": "Machine",
        "metadata": {"name": "sh-113", "labels": {"pool": "online"}},
        "spec": {
            "origin": "Import",
            "node": "Expected",
            "nodeName": "sh-113",
            "addresses": ["10.2.7.113", "fd00::7"],
            "providerID": "",
            "failureDomain": "sh-a",
            "mode": "Manage",
            "minReady": "30s",
            "nodeTemplate": {
                "labels": {"pool": "online"},
                "taints": [
                    {
                        "key": "pool",
                        "value": "online",
                        "effect": "NoSchedule",
                        "propagation": "Always",
                    }
                ],
            },
            "deletion": {
                "drainTimeout": "30m",
                "volumeDetachTimeout": "6m",
                "imported": "Release",
            },
            "components": [
                {
                    "name": "containerd",
                    "component": "containerd-2.1.4",
                    "set": "containerd",
                    "revision": "1-90d2c7e1fa",
                    "configHash": "1-44c0b7d2e1",
                    "values": {"pause": "3.10"},
                    "desiredState": "Running",
                    "attempt": 1,
                    "batch": 2,
                }
            ],
            "permit": {
                "name": "p-7f",
                "components": ["containerd"],
                "maxDisruption": "Drain",
                "startBefore": "2026-03-02T04:10:00Z",
            },
            "operation": {"id": "rj-12", "type": "Replace", "permit": "p-81"},
        },
    }


def machine_class() -> Object:
    return {
        "apiVersion": API,
        "kind": "MachineClass",
        "metadata": {"name": "ecs-a"},
        "spec": {
            "provider": "alibaba",
            "failureDomain": "sh-a",
            "config": {"instanceType": "ecs.g7.large", "disks": [{"gib": 40}]},
            "userDataRef": "debian12",
            "credentialsRef": "alibaba-ram",
            "createTimeout": "15m",
            "nodeStartupTimeout": "20m",
            "limits": {"createsPerMinute": 10, "maxInstances": 500},
        },
    }


def node_class() -> Object:
    return {
        "apiVersion": API,
        "kind": "NodeClass",
        "metadata": {"name": "small"},
        "spec": {
            "nodeController": "alibaba",
            "config": {"instanceType": "ecs.g7.large", "disks": [{"gib": 40}]},
            "resources": [
                {"type": "Reference", "name": "userData", "reference": {"name": "debian12"}},
                {"type": "Reference", "name": "credentials", "reference": {"name": "ram"}},
            ],
            "nodeLabels": {"pool": "online"},
        },
    }


def node_set() -> Object:
    return {
        "apiVersion": API,
        "kind": "NodeSet",
        "metadata": {"name": "online"},
        "spec": {"nodeClass": "small", "replicas": 3, "maxUnavailable": 0, "maxSurge": 1},
    }


def machine_set() -> Object:
    return {
        "apiVersion": API,
        "kind": "MachineSet",
        "metadata": {"name": "online-a"},
        "spec": {
            "replicas": 40,
            "selector": {"matchLabels": {"set": "online-a"}},
            "template": {
                "metadata": {"labels": {"set": "online-a", "pool": "online"}},
                "spec": {"classRef": "ecs-a", "nodeTemplate": {"labels": {"pool": "online"}}},
            },
            "scaleIn": {"order": "Newest"},
            "updatePolicy": "OnDelete",
            "maxSurge": 1,
            "health": {
                "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "for": "10m"}],
                "maxUnhealthy": "20%",
                "maxReplacing": 1,
                "preserve": {"max": 1, "for": "24h"},
            },
        },
    }


def machine_component() -> Object:
    return {
        "apiVersion": API,
        "kind": "MachineComponent",
        "metadata": {"name": "containerd-2.1.4"},
        "spec": {
            "component": "containerd",
            "version": "2.1.4",
            "requires": {"os": ["debian-12"], "arch": ["amd64"], "apiServer": ">=1.32"},
            "dependsOn": [{"component": "runc", "version": ">=1.1.12"}],
            "source": {
                "type": "apt",
                "apt": {
                    "packages": [{"name": "containerd.io", "version": "2.1.4-1"}],
                    "hold": True,
                    "lockWait": "5m",
                },
            },
            "files": [
                {
                    "path": "/etc/containerd/conf.d/10.toml",
                    "mode": "0644",
                    "owner": "root:root",
                    "content": {"inline": "sandbox = '${values.pause}'"},
                    "ownership": "Whole",
                    "onChange": "Restart",
                }
            ],
            "units": [
                {
                    "name": "containerd.service",
                    "enabled": True,
                    "state": "Active",
                    "dropIns": [{"name": "10-limits.conf", "content": "[Service]\nLimitNOFILE=1"}],
                    "onChange": "Restart",
                }
            ],
            "disruption": {"install": "Drain", "patch": "Restart"},
            "health": [{"name": "cri", "type": "exec", "exec": ["ctr", "version"]}],
            "healthDeadline": "5m",
            "hooks": {"post": {"run": ["true"], "check": ["ctr", "version"], "timeout": "5m"}},
            "uninstall": {"purgeFiles": True, "keepData": ["/var/lib/containerd"]},
            "undo": {"mode": "Auto", "onUnhealthy": True},
        },
    }


def machine_component_set() -> Object:
    return {
        "apiVersion": API,
        "kind": "MachineComponentSet",
        "metadata": {"name": "containerd"},
        "spec": {
            "selector": {"matchLabels": {"pool": "online"}},
            "component": "containerd-2.1.4",
            "values": {"pause": "3.10"},
            "onUnselect": "Orphan",
            "updateStrategy": {
                "batches": [1, 5, "10%"],
                "canary": {"matchLabels": {"canary": "true"}},
                "partition": 0,
                "maxUnavailable": "10%",
                "spread": [{"topologyKey": "zone", "maxUnavailable": "5%"}],
                "bakeTime": "10m",
                "autoPause": {"maxFailures": 1},
                "failurePolicy": "Pause",
                "inspection": {
                    "interval": "1m",
                    "checks": [
                        {
                            "name": "ready",
                            "type": "NodeCondition",
                            "nodeCondition": {"type": "Ready", "status": "True"},
                        },
                        {
                            "name": "starts",
                            "type": "PromQL",
                            "promQL": {
                                "query": 'avg(up{node=~"${nodes}"})',
                                "success": "> 0.99",
                                "onEmpty": "Inconclusive",
                            },
                        },
                        {
                            "name": "smoke",
                            "type": "Job",
                            "job": {"configMapRef": "smoke", "timeout": "5m"},
                        },
                    ],
                },
                "window": {
                    "days": ["Mon", "Tue"],
                    "from": "10:00",
                    "to": "17:00",
                    "timeZone": "UTC",
                },
            },
        },
    }


def remediation() -> Object:
    return {
        "apiVersion": API,
        "kind": "KubeNodeRemediation",
        "metadata": {"name": "worker-7", "namespace": "default"},
        "spec": {"severity": "Critical"},
    }


def remediation_template() -> Object:
    metadata = {"labels": {"team": "base"}, "annotations": {"why": "the health check says so"}}
    return {
        "apiVersion": API,
        "kind": "KubeNodeRemediationTemplate",
        "metadata": {"name": "reboot-first", "namespace": "default"},
        "spec": {"template": {"metadata": metadata, "spec": {"severity": "Critical"}}},
    }


def release_pipeline() -> Object:
    return {
        "apiVersion": API,
        "kind": "ReleasePipeline",
        "metadata": {"name": "online"},
        "spec": {
            "stages": [
                {"name": "test", "selector": {"matchLabels": {"stage": "test"}}},
                {
                    "name": "production",
                    "selector": {"matchLabels": {"stage": "production"}},
                    "sortBy": "order",
                    "maxConcurrency": "10%",
                    "maxFailures": 2,
                    "approval": "Before",
                    "onUnreachable": "Skip",
                    "bakeTime": "24h",
                },
            ],
            "failurePolicy": "Rollback",
        },
    }


def release() -> Object:
    return {
        "apiVersion": API,
        "kind": "Release",
        "metadata": {"name": "containerd-2.1.4"},
        "spec": {
            "pipelineRef": "online",
            "payload": [machine_component()],
            "digest": "sha256:" + "0" * 64,
            "state": "Run",
            "onConflict": "Wait",
            "approvals": [{"stage": "production", "by": "ann", "at": "2026-11-21T01:59:09Z"}],
        },
    }


GOOD: Mapping[str, Object] = {
    "remedier": remedier(),
    "inferring-remedier": inferring_remedier(),
    "job": job(),
    "probe": probe(),
    "assignment": agent_assignment(),
    "node-record": node_record(),
    "member": member_cluster(),
    "host-event": host_event(),
    "policy": policy(),
    "permit": permit(),
    "machine": machine(),
    "class": machine_class(),
    "set": machine_set(),
    "node-class": node_class(),
    "node-set": node_set(),
    "component": machine_component(),
    "rollout": machine_component_set(),
    "pipeline": release_pipeline(),
    "release": release(),
    "remediation": remediation(),
    "remediation-template": remediation_template(),
}


def changed(good: Object, at: str, value: object) -> Object:
    """A copy of `good` with `value` at the dotted path `at`, where numbers index lists."""
    made = copy.deepcopy(good)
    here: Any = made
    *way, last = at.split(".")
    for name in way:
        here = here[int(name)] if isinstance(here, list) else here.setdefault(name, {})
    if isinstance(here, list):
        here[int(last)] = value
    elif value is ABSENT:
        del here[last]
    else:
        here[last] = value
    return made


ABSENT = object()
"""As a value: take the field out."""


@dataclass(frozen=True)
class Bad:
    """A good object with one thing wrong."""

    name: str
    good: str
    at: str
    value: object
    field: str
    """The field both must name, as a person writes it."""
    says: str = ""
    """Words that both must say; "" where each has its own."""
    server: bool = True
    """Whether the API server can tell; if not, the registry tells in the object's status."""

    def object(self) -> Object:
        return changed(GOOD[self.good], self.at, self.value)


def nested(depth: int) -> Object:
    """A leaf inside `depth` combinators."""
    made: Object = {"condition": {"type": "Ready"}}
    for level in range(depth):
        made = {"not": made} if level % 2 else {"all": [made]}
    return made


def _steps(*steps: Object) -> list[Object]:
    return list(steps)


LEAF = {"condition": {"type": "Ready"}}
DURATION = "write a number and a unit, like 90s, 10m or 1h30m"
STEP = "spec.ladder.0.steps.0"
BAD: tuple[Bad, ...] = (
    # NodeRemedier: which nodes
    Bad("no mode", "remedier", "spec.mode", ABSENT, "spec.mode"),
    Bad("unknown mode", "remedier", "spec.mode", "Force", "spec.mode", "Enforce"),
    Bad("mode as YAML's off", "remedier", "spec.mode", False, "spec.mode"),
    Bad("no nodes", "remedier", "spec.nodes", ABSENT, "spec.nodes"),
    Bad("nodes says nothing", "remedier", "spec.nodes", {}, "spec.nodes", "`all: true`"),
    Bad("nodes all false", "remedier", "spec.nodes", {"all": False}, "spec.nodes.all"),
    Bad(
        "nodes says it twice",
        "remedier",
        "spec.nodes.all",
        True,
        "spec.nodes",
        "write either `all: true` or a selector",
    ),
    Bad(
        "empty selector",
        "remedier",
        "spec.nodes",
        {"selector": {}},
        "spec.nodes.selector",
        "empty and would mean every node",
    ),
    Bad(
        "selector of empty parts",
        "remedier",
        "spec.nodes",
        {"selector": {"matchLabels": {}, "matchExpressions": []}},
        "spec.nodes.selector",
        "empty and would mean every node",
    ),
    Bad(
        "empty exclude",
        "remedier",
        "spec.nodes.exclude",
        {},
        "spec.nodes.exclude",
        "empty and would exclude every node",
    ),
    Bad(
        "In without values",
        "remedier",
        "spec.nodes.exclude.matchExpressions.0.operator",
        "In",
        "spec.nodes.exclude.matchExpressions[0].values",
        "operators In and NotIn need values",
    ),
    # NodeRemedier: when
    Bad("no when", "remedier", "spec.when", ABSENT, "spec.when"),
    Bad("empty when", "remedier", "spec.when", {}, "spec.when", "write one of all, any, not"),
    Bad("empty unless", "remedier", "spec.unless", {}, "spec.unless", "write one of all, any, not"),
    Bad(
        "two leaves in one expression",
        "remedier",
        "spec.when",
        {**LEAF, "event": {"reason": "x"}},
        "spec.when",
        "write one of all, any, not",
    ),
    Bad(
        "two leaves inside",
        "remedier",
        "spec.when.all.0.event",
        {"reason": "x"},
        "spec.when.all[0]",
    ),
    Bad("empty all", "remedier", "spec.when", {"all": []}, "spec.when.all"),
    Bad("too wide", "remedier", "spec.when", {"any": [LEAF] * 17}, "spec.when.any"),
    Bad("four combinators deep", "remedier", "spec.when", nested(4), "spec.when"),
    Bad("unknown leaf", "remedier", "spec.when", {"condtion": {"type": "x"}}, "spec.when"),
    Bad(
        "unknown field in a leaf",
        "remedier",
        "spec.when.all.1.any.0.condition.fro",
        "1m",
        "spec.when.all[1].any[0].condition.fro",
    ),
    Bad(
        "wrong status",
        "remedier",
        "spec.when.all.0.condition.status",
        True,
        "spec.when.all[0].condition.status",
    ),
    Bad(
        "any event",
        "remedier",
        "spec.when",
        {"event": {"count": 3}},
        "spec.when.event",
        "write a reason or a message",
    ),
    Bad(
        "label asks twice",
        "remedier",
        "spec.when",
        {"label": {"key": "a", "value": "b", "exists": True}},
        "spec.when.label",
        "write one of value, in and exists",
    ),
    Bad(
        "fact compares twice",
        "remedier",
        "spec.when",
        {"fact": {"name": "node.age", "above": 1, "below": 2}},
        "spec.when.fact",
        "write one of is, equals, below, above and in",
    ),
    Bad(
        "fact name without a dot",
        "remedier",
        "spec.when",
        {"fact": {"name": "ready"}},
        "spec.when.fact.name",
    ),
    Bad(
        "fact equals true",
        "remedier",
        "spec.when",
        {"fact": {"name": "node.ready", "equals": True}},
        "spec.when.fact.equals",
    ),
    Bad(
        "absent nothing",
        "remedier",
        "spec.when",
        {"absent": {"for": "5m"}},
        "spec.when.absent",
        "write one leaf, such as condition",
    ),
    Bad(
        "no RE2 expression",
        "remedier",
        "spec.when",
        {"condition": {"type": "Ready", "reason": "(?<=a)b"}},
        "spec.when.condition.reason",
        server=False,
    ),
    # NodeRemedier: the rest of the rule
    Bad("unknown field", "remedier", "spec.coolDown", "1m", "spec.coolDown"),
    Bad("duration without unit", "remedier", "spec.groupWait", "10", "spec.groupWait", DURATION),
    Bad("duration in days", "remedier", "spec.cooldown", "2d", "spec.cooldown", DURATION),
    Bad("negative duration", "remedier", "spec.cooldown", "-5m", "spec.cooldown", DURATION),
    Bad("duration as a number", "remedier", "spec.cooldown", 30, "spec.cooldown"),
    Bad("eternal duration", "remedier", "spec.cooldown", "99999h", "spec.cooldown", server=False),
    Bad("priority too high", "remedier", "spec.priority", 1001, "spec.priority", "1000"),
    Bad("priority as text", "remedier", "spec.priority", "500", "spec.priority"),
    Bad(
        "fault class with a blank", "remedier", "spec.faultClass", "kernel dead", "spec.faultClass"
    ),
    Bad("no attempts", "remedier", "spec.attempts.max", 0, "spec.attempts.max"),
    Bad("neither ladder nor infer", "remedier", "spec.ladder", ABSENT, "spec", "ladder or infer"),
    Bad("both", "remedier", "spec.infer", {"fact": "a.b"}, "spec", "ladder or infer"),
    Bad("empty ladder", "remedier", "spec.ladder", [], "spec.ladder"),
    Bad(
        "two rungs of one name",
        "remedier",
        "spec.ladder.1.name",
        "reboot",
        "spec.ladder",
        "give each its own",
    ),
    # NodeRemedier: rungs and steps
    Bad("rung without steps", "remedier", "spec.ladder.0.steps", [], "spec.ladder[0].steps"),
    Bad(
        "lowered to Pods",
        "remedier",
        "spec.ladder.0.disruption",
        "Pods",
        "spec.ladder[0].disruption",
        "leave it out or raise it",
    ),
    Bad("empty step", "remedier", STEP, {}, "spec.ladder[0].steps[0]", "write one a line"),
    Bad(
        "two acts in a step",
        "remedier",
        STEP,
        {"cordon": {}, "reboot": {}},
        "spec.ladder[0].steps[0]",
        "write one a line",
    ),
    Bad("unknown act", "remedier", STEP, {"shoot": {}}, "spec.ladder[0].steps[0]"),
    Bad(
        "agent action without unit",
        "remedier",
        STEP,
        {"agent": {"action": "RestartUnit"}},
        "spec.ladder[0].steps[0].agent",
        "need `unit`",
    ),
    Bad(
        "unit without suffix",
        "remedier",
        STEP,
        {"agent": {"action": "RestartUnit", "unit": "kubelet"}},
        "spec.ladder[0].steps[0].agent.unit",
    ),
    Bad(
        "unit of an action without one",
        "remedier",
        STEP,
        {"agent": {"action": "SyncTime", "unit": "a.service"}},
        "spec.ladder[0].steps[0].agent",
        "no other action takes it",
    ),
    Bad(
        "check without name",
        "remedier",
        STEP,
        {"agent": {"action": "RunCheck"}},
        "spec.ladder[0].steps[0].agent",
        "RunCheck needs `check`",
    ),
    Bad(
        "script without name",
        "remedier",
        STEP,
        {"agent": {"action": "RunScript"}},
        "spec.ladder[0].steps[0].agent",
        "RunScript needs `script`",
    ),
    Bad(
        "action outside the catalogue",
        "remedier",
        STEP,
        {"agent": {"action": "Shell"}},
        "spec.ladder[0].steps[0].agent.action",
    ),
    Bad(
        "wait without a time",
        "remedier",
        STEP,
        {"wait": {}},
        "spec.ladder[0].steps[0].wait.for",
    ),
    Bad(
        "grace period of a word",
        "remedier",
        STEP,
        {"migrate": {"gracePeriod": "soon"}},
        "spec.ladder[0].steps[0].migrate.gracePeriod",
    ),
    Bad(
        "DeleteAfter without a time",
        "remedier",
        STEP,
        {"migrate": {"podPolicies": [{"mode": "DeleteAfter"}]}},
        "spec.ladder[0].steps[0].migrate.podPolicies[0]",
        "mode DeleteAfter needs `after`",
    ),
    Bad(
        "Gang without a gang",
        "remedier",
        STEP,
        {"migrate": {"podPolicies": [{"mode": "Gang"}]}},
        "spec.ladder[0].steps[0].migrate.podPolicies[0]",
        "mode Gang needs `gang`",
    ),
    Bad(
        "policy for every pod",
        "remedier",
        STEP,
        {"migrate": {"podPolicies": [{"mode": "Evict", "selector": {}}]}},
        "spec.ladder[0].steps[0].migrate.podPolicies[0].selector",
        "would mean every pod",
    ),
    Bad(
        "a check that acts",
        "remedier",
        "spec.ladder.0.verify.checks.0",
        {"cordon": {}},
        "spec.ladder[0].verify.checks",
        "write agent steps with `action: RunCheck`",
    ),
    Bad(
        "proof of two combinators",
        "remedier",
        "spec.ladder.0.verify.cleared",
        {"all": [{"not": LEAF}]},
        "spec.ladder[0].verify.cleared",
    ),
    # RemedyOperationJob
    Bad("job without a node", "job", "spec.nodeName", "", "spec.nodeName"),
    Bad("job without an agent", "job", "spec.agent", ABSENT, "spec.agent"),
    Bad("job without a ladder", "job", "spec.ladder", [], "spec.ladder"),
    Bad("start beyond the ladder", "job", "spec.startRung", 2, "spec.startRung", "the first is 0"),
    Bad("no instant", "job", "spec.deadline", "tomorrow", "spec.deadline"),
    Bad("instant without zone", "job", "spec.deadline", "2026-11-21T01:59:09", "spec.deadline"),
    Bad(
        "decision unknown",
        "job",
        "spec.approvals",
        [{"decision": "Maybe"}],
        "spec.approvals[0].decision",
    ),
    # HostProbe
    Bad("unknown question", "probe", "spec.name", "shell", "spec.name"),
    Bad("question that never expires", "probe", "spec.expiresAt", ABSENT, "spec.expiresAt"),
    # HostEvent
    Bad("unknown source", "host-event", "spec.source", "Rumour", "spec.source"),
    Bad("unknown class", "host-event", "spec.class", "Boom", "spec.class"),
    Bad(
        "attribute of a novel",
        "host-event",
        "spec.attributes.text",
        "x" * 1025,
        "spec.attributes.text",
    ),
    Bad(
        "33 attributes",
        "host-event",
        "spec.attributes",
        {f"a{i}": "" for i in range(33)},
        "spec.attributes",
    ),
    # DefenderPolicy
    Bad(
        "policy without limits",
        "policy",
        "spec.limits",
        [],
        "spec.limits",
        "`acknowledgeUnlimited: true`",
    ),
    Bad(
        "limit of nothing",
        "policy",
        "spec.limits.0",
        {"scope": "Cluster"},
        "spec.limits[0]",
        "limits nothing",
    ),
    Bad(
        "label missing",
        "policy",
        "spec.limits.1.label",
        ABSENT,
        "spec.limits[1]",
        "scope Label needs `label`",
    ),
    Bad(
        "group missing",
        "policy",
        "spec.limits.4.group",
        ABSENT,
        "spec.limits[4]",
        "scope Fleet needs `group`",
    ),
    Bad(
        "onUnreachable outside Fleet",
        "policy",
        "spec.limits.0.onUnreachable",
        "Closed",
        "spec.limits[0].onUnreachable",
        "leave it out",
    ),
    Bad(
        "maxPerClient in Fleet",
        "policy",
        "spec.limits.4.maxPerClient",
        3,
        "spec.limits[4].maxPerClient",
        "leave it out",
    ),
    Bad(
        "othersHealthy outside ControlPlane",
        "policy",
        "spec.limits.0.othersHealthy",
        True,
        "spec.limits[0].othersHealthy",
        "leave it out",
    ),
    Bad(
        "101 percent",
        "policy",
        "spec.limits.0.maxConcurrent",
        "101%",
        "spec.limits[0].maxConcurrent",
    ),
    Bad(
        "negative share",
        "policy",
        "spec.limits.0.maxConcurrent",
        -1,
        "spec.limits[0].maxConcurrent",
    ),
    Bad("rate without time", "policy", "spec.limits.0.rate.per", ABSENT, "spec.limits[0].rate.per"),
    Bad(
        "breaker of a label",
        "policy",
        "spec.breaker.scopes.1.label",
        ABSENT,
        "spec.breaker.scopes[1]",
        "scope Label needs `label`",
    ),
    Bad(
        "lift of one", "policy", "spec.breaker.commonCause.lift", 1, "spec.breaker.commonCause.lift"
    ),
    Bad("25 o'clock", "policy", "spec.windows.0.from", "25:00", "spec.windows[0].from"),
    Bad(
        "no time zone",
        "policy",
        "spec.windows.0.timeZone",
        "Mars/Olympus",
        "spec.windows[0].timeZone",
        server=False,
    ),
    Bad(
        "pause of no label",
        "policy",
        "spec.pauses.0",
        {"scope": "Label", "value": "b"},
        "spec.pauses[0]",
        "scope Label needs `label`",
    ),
    Bad(
        "pause of no node",
        "policy",
        "spec.pauses.0",
        {"scope": "Node"},
        "spec.pauses[0].value",
        "would pause nothing",
    ),
    Bad(
        "policy that excludes all",
        "policy",
        "spec.exclude",
        {},
        "spec.exclude",
        "would exclude every node",
    ),
    # Permit
    Bad("permit without a holder", "permit", "spec.holder", ABSENT, "spec.holder"),
    Bad("permit of no class", "permit", "spec.class", "Host2", "spec.class"),
    Bad("import without addresses", "machine", "spec.addresses", ABSENT, "spec.addresses", "needs"),
    Bad("address by name", "machine", "spec.addresses.0", "sh-113", "spec.addresses", "10.2.7.113"),
    Bad("import by a class", "machine", "spec.classRef", "ecs-a", "spec.classRef", "Import has"),
    Bad("provision without class", "machine", "spec.origin", "Provision", "spec.classRef"),
    Bad("node that is no name", "machine", "spec.nodeName", "SH 113", "spec.nodeName"),
    Bad("unknown mode", "machine", "spec.mode", "Watch", "spec.mode"),
    Bad(
        "taint twice",
        "machine",
        "spec.nodeTemplate.taints",
        [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "b"}],
        "spec.nodeTemplate.taints",
        "each taint once",
    ),
    Bad(
        "component twice",
        "machine",
        "spec.components",
        [machine()["spec"]["components"][0]] * 2,
        "spec.components",
        "one of each name",
    ),
    Bad(
        "values like a file",
        "machine",
        "spec.components.0.values",
        {"a": "x" * 3000, "b": "x" * 3000},
        "spec.components",
        "4096 characters",
    ),
    Bad(
        "revision of no form",
        "machine",
        "spec.components.0.revision",
        "v1",
        "spec.components",
    ),
    Bad("permit for nothing", "machine", "spec.permit.components", [], "spec.permit.components"),
    Bad("operation of no type", "machine", "spec.operation.type", "Burn", "spec.operation.type"),
    # MachineClass, MachineSet, MachineComponent, MachineComponentSet
    Bad("provider of power alone", "class", "spec.provider", "redfish", "spec.provider"),
    Bad("class without config", "class", "spec.config", ABSENT, "spec.config"),
    Bad(
        "set of strangers",
        "set",
        "spec.template.metadata.labels.set",
        "online-b",
        "spec.selector",
        "the machines that it makes",
    ),
    Bad("set of all", "set", "spec.selector", {}, "spec.selector", "every machine"),
    Bad("fewer than none", "set", "spec.replicas", -1, "spec.replicas"),
    Bad(
        "controller of power alone",
        "node-class",
        "spec.nodeController",
        "redfish",
        "spec.nodeController",
    ),
    Bad(
        "one resource twice",
        "node-class",
        "spec.resources.1.name",
        "userData",
        "spec.resources",
        "one resource of each name",
    ),
    Bad(
        "file as a resource",
        "node-class",
        "spec.resources.0.type",
        "File",
        "spec.resources[0].type",
    ),
    Bad(
        "update without room",
        "node-set",
        "spec.maxSurge",
        "0%",
        "spec.maxUnavailable",
        "raise one of both",
    ),
    Bad("set of no class", "node-set", "spec.nodeClass", "", "spec.nodeClass"),
    Bad(
        "two sources",
        "component",
        "spec.source.tarball",
        {"url": "https://x.example/a.tgz", "sha256": "0" * 64, "dest": "/opt/a"},
        "spec.source",
        "one source",
    ),
    Bad(
        "package without a version",
        "component",
        "spec.source.apt.packages.0.version",
        ABSENT,
        "spec.source.apt.packages[0].version",
    ),
    Bad("relative path", "component", "spec.files.0.path", "etc/a", "spec.files[0].path"),
    Bad(
        "content twice",
        "component",
        "spec.files.0.content.secretKey",
        {"name": "a", "key": "b"},
        "spec.files[0].content",
        "one place",
    ),
    Bad(
        "check of no kind", "component", "spec.health.0.type", "http", "spec.health[0]", "one check"
    ),
    Bad("member without credentials", "member", "spec.kubeconfigRef", "", "spec.kubeconfigRef"),
    Bad("member paused by a text", "member", "spec.paused", "yes", "spec.paused"),
    Bad("hook by a shell", "component", "spec.hooks.post.run", "rm -rf /", "spec.hooks.post.run"),
    Bad("rollout over all", "rollout", "spec.selector", {}, "spec.selector", "every machine"),
    Bad("no batch", "rollout", "spec.updateStrategy.batches", [], "spec.updateStrategy.batches"),
    Bad(
        "success of no form",
        "rollout",
        "spec.updateStrategy.inspection.checks.1.promQL.success",
        "good",
        "spec.updateStrategy.inspection.checks[1].promQL.success",
    ),
    Bad(
        "inspection of two kinds",
        "rollout",
        "spec.updateStrategy.inspection.checks.0.type",
        "Job",
        "spec.updateStrategy.inspection.checks[0]",
        "nodeCondition, promQL or job",
    ),
    Bad("no stage", "pipeline", "spec.stages", [], "spec.stages"),
    Bad(
        "stage of all clusters",
        "pipeline",
        "spec.stages.0.selector",
        {},
        "spec.stages[0].selector",
        "every cluster",
    ),
    Bad(
        "two stages of a name",
        "pipeline",
        "spec.stages.1.name",
        "test",
        "spec.stages",
        "same name twice",
    ),
    Bad("odd stage", "pipeline", "spec.stages.0.name", "Test", "spec.stages[0].name"),
    Bad(
        "odd concurrency",
        "pipeline",
        "spec.stages.1.maxConcurrency",
        "101%",
        "spec.stages[1].maxConcurrency",
    ),
    Bad("release of nothing", "release", "spec.payload", [], "spec.payload"),
    Bad(
        "release of a Secret",
        "release",
        "spec.payload.0.kind",
        "Secret",
        "spec.payload[0].kind",
        "NodeRemedier",
    ),
    Bad(
        "release of another group",
        "release",
        "spec.payload.0.apiVersion",
        "v1",
        "spec.payload[0].apiVersion",
    ),
    Bad(
        "object twice",
        "release",
        "spec.payload",
        [machine_component(), machine_component()],
        "spec.payload",
        "same object twice",
    ),
    Bad("digest of no form", "release", "spec.digest", "9c41", "spec.digest"),
    Bad("approval of nobody", "release", "spec.approvals.0.by", "", "spec.approvals[0].by"),
    Bad("unknown state", "release", "spec.state", "Stop", "spec.state", "Rollback"),
)

IMMUTABLE: tuple[tuple[str, str, object], ...] = (
    ("job", "spec.nodeName", "n00043"),
    ("job", "spec.mode", "DryRun"),
    ("job", "spec.deadline", "2026-11-21T01:59:09Z"),
    ("job", "spec.remedier", ABSENT),
    ("job", "spec.ladder.0.steps.0", {"uncordon": {}}),
    ("job", "spec.when.all.1.any.0.condition.for", "2m"),
    ("job", "spec.when.all.1.any.1", {"not": {"absent": {"fact": {"name": "node.ready"}}}}),
    ("probe", "spec.name", "power"),
    ("probe", "spec.args", {"path": "/"}),
    ("machine", "spec.origin", "Provision"),
    ("machine", "spec.classRef", "ecs-a"),
    ("class", "spec.provider", "aws"),
    ("set", "spec.selector", {"matchLabels": {"pool": "online"}}),
    ("component", "spec.version", "2.1.5"),
    ("component", "spec.files.0.mode", "0600"),
    ("release", "spec.pipelineRef", "offline"),
    ("release", "spec.payload.0.spec.version", "2.1.5"),
    ("release", "spec.digest", "sha256:" + "1" * 64),
)
"""Kind, path and value of changes that must be refused once the object exists."""

MUTABLE: tuple[tuple[str, str, object], ...] = (
    ("job", "spec.cancel", True),
    ("job", "spec.approvals", [{"decision": "Approve", "by": "ann"}]),
    ("machine", "spec.providerID", "aws:///eu-1a/i-0abc"),
    ("machine", "spec.components.0.attempt", 2),
    ("class", "spec.config.instanceType", "ecs.g7.xlarge"),
    ("set", "spec.replicas", 41),
    ("member", "spec.kubeconfigRef", "sh-03-b"),
    ("member", "spec.paused", True),
    ("rollout", "spec.component", "containerd-2.1.5"),
    ("release", "spec.state", "Pause"),
    ("release", "spec.onConflict", "Force"),
    ("release", "spec.approvals", []),
    ("pipeline", "spec.stages.0.bakeTime", "1h"),
)
