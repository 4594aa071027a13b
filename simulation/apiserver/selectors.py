"""Label and field selectors, compiled to predicates over objects.

Each resource has an allow-list of fields, as on a real server: a selector that works here must not
be refused in production. Grammar: apimachinery `pkg/labels/selector.go` and
`pkg/fields/selector.go`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simulation.apiserver.errors import Obj, bad_request
from simulation.apiserver.registry import Path, ServedResource

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_KEY = r"(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_TERM = re.compile(
    rf"""\s*(?:
      (?P<set>{_KEY})\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)
    | (?P<gt>{_KEY})\s*(?P<cmp>[<>])\s*(?P<number>-?\d+)
    | (?P<eq>{_KEY})\s*(?P<sign>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)
    | !\s*(?P<absent>{_KEY})
    | (?P<present>{_KEY})
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_BOOLEAN = frozenset({"spec.unschedulable", "spec.hostNetwork"})
"""Fields whose absence means false instead of an empty text."""


def parse_labels(text: str) -> Test | None:
    """Return a test of labels for a `labelSelector` parameter; None if it selects everything.

    Raises ApiError 400 for an invalid selector.
    """
    if not text.strip():
        return None
    tests: list[Test] = []
    at = 0
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None or match.end() == at:
            raise bad_request(f"unable to parse requirement: {text[at:]!r} in {text!r}")
        tests.append(_term(match))
        at = match.end()
        if at == len(text) and text.endswith(","):
            raise bad_request(f"unable to parse requirement: found ',' at the end of {text!r}")
    return _all(tests)


def _term(match: re.Match[str]) -> Test:
    if key := match["set"]:
        values = {value.strip() for value in match["values"].split(",")}
        return _in(key, values) if match["op"] == "in" else _not_in(key, values)
    if key := match["gt"]:
        return _compare(key, match["cmp"], int(match["number"]))
    if key := match["eq"]:
        value = match["value"]
        if not _VALUE.fullmatch(value):
            raise bad_request(f"invalid label value: {value!r}")
        return _not_in(key, {value}) if match["sign"] == "!=" else _in(key, {value})
    if key := match["absent"]:
        return lambda labels: key not in labels
    present = match["present"]
    return lambda labels: present in labels


def _all(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def _in(key: str, values: set[str]) -> Test:
    return lambda labels: labels.get(key) in values


def _not_in(key: str, values: set[str]) -> Test:
    return lambda labels: labels.get(key) not in values


def _compare(key: str, sign: str, number: int) -> Test:
    def test(labels: Labels) -> bool:
        try:
            value = int(labels[key])
        except (KeyError, ValueError):
            return False
        return value > number if sign == ">" else value < number

    return test


def label_selector(selector: Obj | None) -> Test:
    """Return a test for a metav1.LabelSelector: None selects nothing, {} everything.

    Raises ApiError 400 for an unknown operator.
    """
    if selector is None:
        return lambda labels: False
    tests: list[Test] = [
        _in(key, {value}) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for term in selector.get("matchExpressions") or ():
        key, operator, values = term["key"], term["operator"], set(term.get("values") or ())
        match operator:
            case "In":
                tests.append(_in(key, values))
            case "NotIn":
                tests.append(_not_in(key, values))
            case "Exists":
                tests.append(lambda labels, key=key: key in labels)  # type: ignore[misc]
            case "DoesNotExist":
                tests.append(lambda labels, key=key: key not in labels)  # type: ignore[misc]
            case _:
                raise bad_request(f"{operator!r} is not a valid label selector operator")
    return _all(tests) if tests else lambda labels: True


def dig(obj: Any, path: Path) -> Any:
    """Return the value at `path`, None if a part of it is missing."""
    for key in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def field_text(value: Any, name: str) -> str:
    """Return a field's value as a selector compares it."""
    if value is None:
        return "false" if name in _BOOLEAN else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    name: str
    path: Path
    value: str
    negative: bool

    def test(self, obj: Obj) -> bool:
        return (field_text(dig(obj, self.path), self.name) == self.value) is not self.negative


def parse_fields(text: str, resource: ServedResource) -> tuple[FieldTerm, ...]:
    r"""Return the terms of a `fieldSelector`; `\,` `\=` and `\\` are escapes in values.

    Raises ApiError 400 for a field that the resource does not have.
    """
    terms: list[FieldTerm] = []
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        match = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        name, sign, value = match.groups()
        terms.append(
            FieldTerm(
                name,
                _field_path(resource, name),
                re.sub(r"\\([,=\\])", r"\1", value),
                sign == "!=",
            )
        )
    return tuple(terms)


def _field_path(resource: ServedResource, name: str) -> Path:
    if name == "metadata.name" or (name == "metadata.namespace" and resource.namespaced):
        return tuple(name.split("."))
    path = resource.fields.get(name)
    if path is None:
        raise bad_request(f"field label not supported: {name}")
    return path


class Selection:
    """What a list, a watch or a deletecollection selects.

    namespace, name: "" for all.
    pin: a field and the value that it must have, None for none. The store wakes only the watches
        that an event can concern.
    """

    __slots__ = ("_fields", "_labels", "everything", "name", "namespace", "pin")

    def __init__(
        self,
        namespace: str = "",
        name: str = "",
        labels: Test | None = None,
        fields: tuple[FieldTerm, ...] = (),
    ) -> None:
        pins = [(term.path, term.value) for term in fields if not term.negative and term.value]
        if name:
            pins.insert(0, (("metadata", "name"), name))
        self.namespace = namespace
        self.name = name
        self.pin: tuple[Path, str] | None = pins[0] if pins else None
        self._labels = labels
        self._fields = fields
        self.everything = not (namespace or name or labels or fields)

    def matches(self, obj: Obj) -> bool:
        if self.everything:
            return True
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.name and metadata["name"] != self.name:
            return False
        if self._labels is not None and not self._labels(metadata.get("labels") or {}):
            return False
        return all(term.test(obj) for term in self._fields)


def select(
    resource: ServedResource, namespace: str, name: str, query: Mapping[str, str]
) -> Selection:
    """Return the selection of a request. Raises ApiError 400 for an invalid selector."""
    return Selection(
        namespace,
        name,
        parse_labels(query.get("labelSelector", "")),
        parse_fields(query.get("fieldSelector", ""), resource),
    )
