"""Common parts of Kubernetes objects: metadata, conditions and selectors."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from kubenode.api.base import CelRule, Model
from kubenode.instants import FIRST, FIRST_YEAR, LAST, LAST_YEAR

_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})")


def _read_time(value: Any, info: ValidationInfo) -> Any:
    """Parse a time. A stored time out of bounds is clamped; in user input, one before FIRST_YEAR is
    an error."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        year = int(value[:4])
        if year < FIRST_YEAR and info.mode != "json":
            raise ValueError(f"{value!r} {TOO_EARLY}")
        return value if FIRST_YEAR <= year <= LAST_YEAR else FIRST if year < FIRST_YEAR else LAST
    raise ValueError(f"{value!r} is no instant: write it like 2026-11-21T01:59:09Z")


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone: write it like 2026-11-21T01:59:09Z")
    return value


def format_time(value: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds, because short repairs are measured."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


TOO_EARLY = f"is before {FIRST_YEAR}: write an instant like 2026-11-21T01:59:09Z"
Time = Annotated[
    datetime,
    BeforeValidator(_read_time),
    AfterValidator(_aware),
    PlainSerializer(format_time, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Instant, in JSON as RFC 3339. A stored instant out of bounds is clamped, see kubenode.instants.
"""

LabelValue = Annotated[str, StringConstraints(max_length=63)]


class OwnerReference(Model):
    model_config = ConfigDict(extra="ignore")

    api_version: str
    kind: str
    name: str
    uid: str
    controller: StrictBool | None = None
    block_owner_deletion: StrictBool | None = None


SERVER_METADATA = ("managedFields", "selfLink", "deletionGracePeriodSeconds")
"""Metadata of an exported object that KubeNode neither reads nor writes."""


class ObjectMeta(Model):
    """Standard object metadata: the fields that KubeNode reads or writes."""

    name: str = Field(
        default="",
        max_length=253,
        pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?$",
    )
    generate_name: str | None = None
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: StrictInt = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[OwnerReference] = Field(default_factory=list)
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None

    @model_validator(mode="before")
    @classmethod
    def _only_ours(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {k: v for k, v in data.items() if v is not None and k not in SERVER_METADATA}

    @model_serializer(mode="wrap")
    def _without_what_is_empty(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out empty fields such as `uid: ""`, so that the server sets them on create."""
        return {k: v for k, v in dump(self).items() if v or k == "name"}


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """Condition of an object, as metav1.Condition."""

    type: str = Field(max_length=316)
    status: ConditionStatus
    reason: str = Field(default="", max_length=1024)
    message: str = Field(default="", max_length=32768)
    observed_generation: StrictInt | None = Field(default=None, ge=0)
    last_transition_time: Time


class SelectorOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelSelectorRequirement(Model):
    key: str = Field(min_length=1, max_length=317)
    operator: SelectorOperator
    values: list[LabelValue] = Field(default_factory=list, max_length=64)

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "operators In and NotIn need values, Exists and DoesNotExist take none",
            "values",
        ),
    )

    @model_validator(mode="after")
    def _values_fit_the_operator(self) -> "LabelSelectorRequirement":
        if (self.operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)) != bool(self.values):
            raise self.cel[0].broken()
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case SelectorOperator.IN:
                return labels.get(self.key) in self.values
            case SelectorOperator.NOT_IN:
                return labels.get(self.key) not in self.values
            case SelectorOperator.EXISTS:
                return self.key in labels
            case SelectorOperator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(Model):
    """Label selector whose requirements must all match. Must not be empty."""

    match_labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=32)
    match_expressions: list[LabelSelectorRequirement] = Field(default_factory=list, max_length=32)

    @property
    def empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether `labels` match every requirement. An empty selector matches everything."""
        return all(labels.get(k) == v for k, v in self.match_labels.items()) and all(
            r.matches(labels) for r in self.match_expressions
        )


def not_empty(field: str, message: str) -> CelRule:
    """Return the rule that the selector in `field` of a model, if present, is not empty."""
    path = f"self.{field}"
    return CelRule(
        f"!has({path}) || (has({path}.matchLabels) && size({path}.matchLabels) > 0)"
        f" || (has({path}.matchExpressions) && size({path}.matchExpressions) > 0)",
        message,
        field,
    )


EITHER = CelRule(
    "has(self.all) != has(self.selector)",
    "says not which nodes, or says it twice: write either `all: true` or a selector",
)
NOT_EVERY_NODE = not_empty(
    "selector", "empty and would mean every node: write matchLabels, or `all: true` if meant"
)
NOT_EXCLUDING_EVERY_NODE = not_empty(
    "exclude", "empty and would exclude every node: write matchLabels or leave it out"
)


class NodeSelection(Model):
    """Selection of nodes: `all: true` or a selector, except those that `exclude` matches."""

    all: Literal[True] | None = None
    selector: LabelSelector | None = None
    exclude: LabelSelector | None = None

    cel: ClassVar[tuple[CelRule, ...]] = (EITHER, NOT_EVERY_NODE, NOT_EXCLUDING_EVERY_NODE)

    @model_validator(mode="after")
    def _says_which(self) -> "NodeSelection":
        if (self.all is None) == (self.selector is None):
            raise EITHER.broken()
        if self.selector is not None and self.selector.empty:
            raise NOT_EVERY_NODE.broken()
        if self.exclude is not None and self.exclude.empty:
            raise NOT_EXCLUDING_EVERY_NODE.broken()
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.exclude is not None and self.exclude.matches(labels):
            return False
        return self.selector is None or self.selector.matches(labels)
