"""Objects that an API server takes and that nobody would write: odd values at random places.

They follow the schema of their kind, so that most of them are stored: years 1 and 9999, texts of a
megabyte, escapes, depths beyond any stack, empty and huge numbers, and every word of every enum.
An object depends on the seed, its kind and its number alone, so a number is enough to see it again.
"""

import copy
import json
import random
import re
from collections.abc import Iterator, Mapping
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
NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63))
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


Way = tuple[str, ...]
"""Of an enum in a schema: names of fields, ITEMS for those of a list, VALUES for those of a map."""
ITEMS, VALUES = "[]", "{}"


def enums(schema: Object, way: Way = ()) -> Iterator[tuple[Way, list[Any]]]:
    """Every enum below `schema`, with the way there."""
    if "enum" in schema:
        yield way, schema["enum"]
    for key, part in schema.get("properties", {}).items():
        yield from enums(part, (*way, key))
    if "items" in schema:
        yield from enums(schema["items"], (*way, ITEMS))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from enums(schema["additionalProperties"], (*way, VALUES))


def words(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Every text and truth in an object, with the way there: to be compared with `enums`."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from words(part, (*way, VALUES if key == ODD_KEY else key))
    elif isinstance(value, list):
        for part in value:
            yield from words(part, (*way, ITEMS))
    elif isinstance(value, str | bool):
        yield way, value


ODD_KEY = "odd"
"""The one key of a map."""
ONE_OF = re.compile(r"\[(has\(self\.\w+\)(?:, has\(self\.\w+\))+)\]\.filter")
TOGETHER = re.compile(r"\(self\.(\w+) == '(\w+)'\) == has\(self\.(\w+)\)")
PLAIN = ("a", "1s", "1", "a/b", "1.2.3", "/a", "https://a")
"""One of them fits most patterns."""


class OddObjects:
    """The same objects for the same seed.

    given  an object by kind that is well: what no schema can say is right in it
    """

    def __init__(self, seed: int, given: Mapping[str, Object]) -> None:
        self._seed, self._given = seed, given
        self._dice = random.Random(seed)
        self.schemas: dict[str, Object] = {
            kind.__name__: definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            for kind in KINDS
        }
        self._words = {kind: _each_word(schema) for kind, schema in self.schemas.items()}

    def begin(self, kind: str, number: int) -> None:
        """What is made next is the object of this number."""
        self._dice = random.Random(f"{self._seed} {kind} {number}")

    def enough(self, kind: str) -> int:
        """The number of objects of `kind` after which each word of each enum was in one."""
        return 2 * len(self._words[kind])

    def of(self, kind: str, name: str, number: int) -> Object:
        """With `spec` and `status`. Every second is well but for one word of an enum in its turn;
        of a third of the others only the status is odd.
        """
        self.begin(kind, number)
        made = copy.deepcopy(dict(self._given[kind]))
        metadata = {"name": name, "annotations": self._annotations()}
        made["metadata"] = {**metadata, **self._namespace(made)}
        parts, turn = self.schemas[kind]["properties"], number // 2
        target = self._words[kind][turn % len(self._words[kind])] if self._words[kind] else None
        if number % 2 == 0 and target is not None:
            (part, *way), word = target
            made[part] = self._placed(parts[part], made.get(part), way, word)
            return made
        if self._dice.random() < 0.67:
            made["spec"] = self._changed(parts["spec"], made["spec"])
        if "status" in parts:
            made["status"] = self._any(parts["status"], 0)
        return made

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

    def _placed(self, schema: Object, value: Any, way: list[str], word: Any) -> Any:
        """`value` with `word` at the end of the way, and what has to be there beside it."""
        if not way:
            return word
        step, *rest = way
        if step == ITEMS:
            first, *others = value or [None]
            return [self._placed(schema["items"], first, rest, word), *others]
        if step == VALUES:
            return {ODD_KEY: self._placed(schema["additionalProperties"], None, rest, word)}
        made = dict(value) if isinstance(value, dict) else self._plain(schema)
        for other in _alternatives(schema, step):
            made.pop(other, None)
        made[step] = self._placed(schema["properties"][step], made.get(step), rest, word)
        together = _together(schema)
        made.update({key: when for key, when, part in together if part == step})
        for key, when, part in together:
            if made.get(key) == when:
                made.setdefault(part, self._plain(schema["properties"][part]))
            else:
                made.pop(part, None)
        return made

    def _plain(self, schema: Object) -> Any:
        """The least that fits the schema."""
        if "default" in schema:
            return schema["default"]
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("maxProperties") == 0:
            return True
        match schema.get("type"):
            case "string" if schema.get("format") == "date-time":
                return "2026-11-21T01:59:09Z"
            case "string":
                pattern = schema.get("pattern", "")
                durations = "ms|[smh]" in str(schema.get("x-kubernetes-validations", ""))
                fitting = ["1s"] if durations else [t for t in PLAIN if re.search(pattern, t)]
                return (fitting or ["a"])[0].ljust(schema.get("minLength", 0), "x")
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return True
            case "array":
                return [self._plain(schema["items"]) for _ in range(schema.get("minItems", 0))]
            case _:
                parts = schema.get("properties", {})
                return {key: self._plain(parts[key]) for key in schema.get("required", ())}

    def _any(self, schema: Object, depth: int) -> Any:
        """Something that fits the schema, as far as it says what fits."""
        if "enum" in schema:
            return self._one(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._one((0, 1, "0%", "100%", 2**31 - 1))
        if schema.get("maxProperties") == 0:
            return self._one((True, -1, 2**53, 0.5, TEXTS[4][: schema["maxLength"]]))
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            deep = (f"{NESTED}{SHALLOW}", f"{NESTED}{DEPTH}")
            return self._one(({}, {"a": MEGABYTE}, *deep, {"a": TEXTS[4]}))
        match schema.get("type"):
            case "string":
                return self._text(schema)
            case "integer" | "number":
                wide = 31 if schema.get("format") == "int32" else 63
                low = schema.get("minimum", -(2**wide))
                high = schema.get("maximum", 2**wide - 1)
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
            return {ODD_KEY: self._any(schema["additionalProperties"], depth + 1)}
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


def _each_word(schema: Object) -> list[tuple[Way, Any]]:
    """Every word of every enum; such as differ in their last steps come first, as schemas repeat
    themselves where an expression is in another.
    """
    every = [(way, word) for way, choice in enums(schema) for word in choice]
    seen = set[tuple[Way, Any]]()
    first: list[tuple[Way, Any]] = []
    again: list[tuple[Way, Any]] = []
    for way, word in every:
        end = way[-3:], word
        (again if end in seen else first).append((way, word))
        seen.add(end)
    return first + again


def _alternatives(schema: Object, step: str) -> set[str]:
    """Fields that may not stand beside `step`."""
    found = set[str]()
    for rule in schema.get("x-kubernetes-validations", ()):
        for choice in ONE_OF.findall(rule["rule"]):
            names = set(re.findall(r"self\.(\w+)", choice))
            if step in names:
                found |= names - {step}
    return found


def _together(schema: Object) -> list[tuple[str, str, str]]:
    """(field, value, other): `other` stands there if and only if `field` has this value."""
    return [
        found
        for rule in schema.get("x-kubernetes-validations", ())
        for found in TOGETHER.findall(rule["rule"])
        if found[2] in schema["properties"]
    ]
