"""Objects that an API server takes and that nobody would write: odd values at random places.

They follow the schema of their kind, so that most of them are stored: years 1 and 9999, texts of a
megabyte, escapes, depths beyond any stack, every word of an enum, empty and huge numbers.
"""

import copy
import json
import random
from collections.abc import Mapping
from typing import Any

from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS

Object = dict[str, Any]
TIMES = (
    *("1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z"),
    *("0001-02-03T04:05:06Z", "9999-12-31T23:59:59Z", "2026-11-21T01:59:09.123456Z"),
    *("9999-12-31T23:59:59-12:00", "1970-01-01T00:00:00+14:00", "2038-01-19T03:14:08Z"),
)
TEXTS = (
    *("", "0", "-1", "null", "\x7f\u202e\ufeff", '\\"\\\\\\u0000{"a":[', "<&>" * 300),
    *("\u00e4\U0001f600" * 100, "x" * 1024, "x" * 4096, "\n\r\t" * 50, "a/b:c%00", "1e999"),
)
NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**53, 2**63 - 1)
LABELS = ("", "x", "x" * 63, "a.b_c-D")
MEGABYTE = "<" * 2**20
"""An API server writes each of them as six bytes."""
SHALLOW, DEPTH = 90, 1500


NESTED = "nested:"
"""Begin of a text in whose place `encoded` writes an object of so many levels."""


def encoded(made: Object) -> bytes:
    """As JSON; no encoder goes as deep as an API server."""
    text = json.dumps(made)
    for depth in (SHALLOW, DEPTH):
        text = text.replace(f'"{NESTED}{depth}"', '{"a":' * depth + "1" + "}" * depth)
    return text.encode()


class OddObjects:
    """The same objects for the same seed.

    given  an object by kind that is well: what no schema can say is right in it
    """

    def __init__(self, seed: int, given: Mapping[str, Object]) -> None:
        self._dice, self._given = random.Random(seed), given
        self._schemas = {
            kind.__name__: definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            for kind in KINDS
        }

    def of(self, kind: str, name: str) -> Object:
        """With `spec` and `status`; of one in three only the status is odd."""
        made = copy.deepcopy(self._given.get(kind)) or self._bare(kind)
        metadata = {"name": name, "annotations": self._annotations()}
        made["metadata"] = {**metadata, **self._namespace(made)}
        parts = self._schemas[kind]["properties"]
        if self._dice.random() < 0.67:
            made["spec"] = self._changed(parts["spec"], made["spec"])
        if "status" in parts:
            made["status"] = self._any(parts["status"], 0)
        return made

    def _bare(self, kind: str) -> Object:
        spec = self._any(self._schemas[kind]["properties"]["spec"], 0)
        return {"apiVersion": "kubenode.io/v1alpha1", "kind": kind, "metadata": {}, "spec": spec}

    def node(self, name: str) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"topology.kubernetes.io/zone": self._one(LABELS)},
                "annotations": {
                    **self._annotations(),
                    "kubenode.io/maintenance-until": self._one((*TIMES, *TEXTS)),
                },
            },
            "spec": {
                "unschedulable": self._one((True, False)),
                "providerID": self._one(TEXTS)[:512],
                "taints": [{"key": "odd", "effect": "NoSchedule", "timeAdded": self._one(TIMES)}],
            },
            "status": {
                "conditions": [self._condition(type_) for type_ in ("Ready", "Sick", "x" * 300)],
                "nodeInfo": {"bootID": self._one(TEXTS), "kernelVersion": self._one(TEXTS)},
                "allocatable": {"nvidia.com/gpu": self._one(("0", "1", "9223372036854775807"))},
            },
        }

    def event(self, name: str, node: str) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": node},
            "reason": self._one(TEXTS)[:128],
            "message": self._one(TEXTS)[:1024],
            "type": self._one(("Normal", "Warning")),
            "count": self._one((0, 1, -1, 2**31 - 1)),
            "firstTimestamp": self._one(TIMES),
            "lastTimestamp": self._one(TIMES),
            "source": {"component": self._one(TEXTS)},
        }

    def lease(self, name: str, namespace: str) -> Object:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": {"kubenode.io/boot-id": self._one(TEXTS)},
            },
            "spec": {
                "holderIdentity": self._one(TEXTS) or "x",
                "leaseDurationSeconds": self._one((1, 40, 2**31 - 1)),
                "renewTime": self._one(TIMES).replace("59Z", "59.000000Z"),
            },
        }

    def request(self, name: str, pem: str) -> Object:
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name, "annotations": self._annotations()},
            "spec": {
                "request": pem,
                "signerName": self._one(("kubernetes.io/kubelet-serving", "odd.io/signer")),
                "usages": self._one((["digital signature"], ["client auth"], ["any"])),
                "expirationSeconds": self._one((600, 2**31 - 1)),
            },
        }

    # -- values ----------------------------------------------------------------------------------

    def _one(self, values: Any) -> Any:
        return self._dice.choice(values)

    def _namespace(self, made: Object) -> Object:
        namespace = made["metadata"].get("namespace")
        return {"namespace": namespace} if namespace else {}

    def _annotations(self) -> dict[str, str]:
        odd = {"odd/text": self._one(TEXTS)}
        if self._dice.random() < 0.05:
            odd["odd/long"] = "<" * 200_000
        return odd

    def _condition(self, type_: str) -> Object:
        return {
            "type": type_,
            "status": self._one(("True", "False", "Unknown", "", "odd")),
            "reason": self._one(TEXTS),
            "message": self._one(TEXTS),
            "lastHeartbeatTime": self._one(TIMES),
            "lastTransitionTime": self._one(TIMES),
        }

    def _changed(self, schema: Object, value: Any) -> Any:
        """`value` with odd ones in some places."""
        if isinstance(value, dict) and "properties" in schema:
            changed = {
                key: self._changed(schema["properties"].get(key, {}), part)
                for key, part in value.items()
            }
            absent = schema["properties"].keys() - value.keys()
            for key in sorted(absent):
                if self._dice.random() < 0.05:
                    changed[key] = self._any(schema["properties"][key], 0)
            return changed
        if isinstance(value, list) and "items" in schema:
            return [self._changed(schema["items"], item) for item in value]
        return self._any(schema, 0) if self._dice.random() < 0.1 else value

    def _any(self, schema: Object, depth: int) -> Any:
        """Something that fits the schema, as far as it says what fits."""
        if "enum" in schema:
            return self._one(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._one((0, 1, "0%", "100%", 2**31 - 1))
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            deep = (f"{NESTED}{SHALLOW}", f"{NESTED}{DEPTH}")
            return self._one(({}, {"a": MEGABYTE}, *deep, {"a": TEXTS[4]}))
        match schema.get("type"):
            case "string":
                return self._text(schema)
            case "integer" | "number":
                low = schema.get("minimum", NUMBERS[4])
                high = schema.get("maximum", NUMBERS[3])
                return min(max(self._one((*NUMBERS, low, high)), low), high)
            case "boolean":
                return self._one((True, False))
            case "array":
                count = 0 if depth > 6 else self._one((0, 1, 1, 2))
                count = min(max(count, schema.get("minItems", 0)), schema.get("maxItems", 9))
                return [self._any(schema["items"], depth + 1) for _ in range(count)]
            case _:
                return self._object(schema, depth)

    def _object(self, schema: Object, depth: int) -> Object:
        if "additionalProperties" in schema:
            return {"odd": self._any(schema["additionalProperties"], depth + 1)}
        required = schema.get("required", ())
        chance = 0.6 if depth < 3 else 0.2
        return {
            key: self._any(part, depth + 1)
            for key, part in schema.get("properties", {}).items()
            if key in required or self._dice.random() < chance
        }

    def _text(self, schema: Object) -> str:
        if schema.get("format") == "date-time":
            return str(self._one(TIMES))
        if "pattern" in schema or "x-kubernetes-validations" in schema:
            return str(self._one(("1s", "1h30m", "a", "node-1", "1")))
        text = str(self._one(TEXTS))
        long = schema.get("maxLength", 8192)
        if self._dice.random() < 0.1:
            text = "<" * min(long, 2**20)
        return text[:long].ljust(schema.get("minLength", 0), "x")
