"""Expressions of rules: leaves combined by all, any and not.

Expressions nest up to three combinators. For more, define an inferred fact. Every leaf is true,
false or unknown.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from kubenode.api.base import CelRule, Model, refusal
from kubenode.api.duration import Duration
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.window import TimeWindow

DEPTH = 3
"""Maximum nesting depth of combinators (all, any, not)."""
WIDTH = 16
"""Maximum number of members of one `all` or `any`."""

Text = Annotated[str, StringConstraints(max_length=1024)]
Scalar = StrictBool | StrictInt | StrictFloat | Text


def _given(model: Model, names: tuple[str, ...]) -> int:
    return sum(getattr(model, name) is not None for name in names)


def checked_regex(pattern: str) -> str:
    """Return `pattern` if RE2 can compile it. Raises ValueError with the message of RE2."""
    import re2  # a C extension that not every reader of the API needs

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        message = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise ValueError(f"{pattern!r} is no RE2 expression: {message}") from error
    return pattern


class ConditionLeaf(Model):
    """Node condition with this status for a minimum time."""

    type: str = Field(min_length=1, max_length=316)
    """Type of the condition, such as `KernelDeadlock`."""
    status: ConditionStatus = ConditionStatus.TRUE
    reason: str | None = Field(default=None, min_length=1, max_length=512)
    """RE2 expression to find in the reason."""
    message: str | None = Field(default=None, min_length=1, max_length=512)
    """RE2 expression to find in the message."""
    for_: Duration = Field(default=timedelta(0), alias="for")
    """Minimum time with this status. Changes of reason and detector restarts do not reset it. Time
    without a report from the detector counts only if reports resume."""
    max_age: Duration = timedelta(minutes=15)
    """Maximum age of the last report. Older conditions are unknown."""

    _regex = field_validator("reason", "message")(lambda v: v if v is None else checked_regex(v))


class EventLeaf(Model):
    """At least `count` occurrences of a node Event within a sliding window."""

    reason: str | None = Field(default=None, min_length=1, max_length=128)
    """Exact reason. Also counts kubelet warnings with this reason about pods of the node, except
    BackOff and Unhealthy."""
    message: str | None = Field(default=None, min_length=1, max_length=512)
    """RE2 expression to find in the message."""
    source: str | None = Field(default=None, min_length=1, max_length=128)
    """Reporting component, such as `kernel-monitor`."""
    severity: Literal["Normal", "Warning"] | None = None
    """Type of the Event."""
    count: StrictInt = Field(default=1, ge=1, le=1000)
    within: Duration = timedelta(minutes=10)
    """Length of the window, at most 720h. Above 24h, the NodeRecord keeps the occurrences since one
    day before the rule was loaded."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "has(self.reason) || has(self.message)",
            "any event would do: write a reason or a message",
        ),
    )
    _regex = field_validator("message")(lambda v: v if v is None else checked_regex(v))

    @model_validator(mode="after")
    def _names_something(self) -> "EventLeaf":
        if self.reason is None and self.message is None:
            raise self.cel[0].broken()
        return self


class HostEventLeaf(Model):
    """Open HostEvent of the node."""

    class_: str | None = Field(default=None, alias="class", min_length=1, max_length=64)
    """Class of the HostEvent, such as `Reboot`."""
    source: str | None = Field(default=None, min_length=1, max_length=64)
    phase: str | None = Field(default=None, min_length=1, max_length=64)
    """Phase of the HostEvent. Closed events never match."""
    starts_within: Duration = timedelta(minutes=30)
    """Maximum time until the start of a scheduled event."""
    severity: str | None = Field(default=None, min_length=1, max_length=32)


class AlertLeaf(Model):
    """Firing Alertmanager alert for the node from a live source."""

    name: str = Field(min_length=1, max_length=512)
    """RE2 expression that matches the whole alert name."""
    labels: dict[str, Text] = Field(default_factory=dict, max_length=16)
    """Labels with exact values."""
    for_: Duration = Field(default=timedelta(0), alias="for")
    """Minimum time for which it fires."""

    _regex = field_validator("name")(checked_regex)


class _KeyedLeaf(Model):
    key: str = Field(min_length=1, max_length=317)
    value: Text | None = None
    """Exact value."""
    in_: list[Text] | None = Field(default=None, alias="in", min_length=1, max_length=64)
    """Allowed values."""
    exists: StrictBool | None = None
    """Whether the key must exist. Defaults to true without `value` and `in`."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "[has(self.value), has(self.__in__), has(self.exists)].filter(x, x).size() < 2",
            "asks several things: write one of value, in and exists",
        ),
    )

    @model_validator(mode="after")
    def _check_comparisons(self) -> "_KeyedLeaf":
        if _given(self, ("value", "in_", "exists")) > 1:
            raise self.cel[0].broken()
        return self


class LabelLeaf(_KeyedLeaf):
    """Node label."""


class AnnotationLeaf(_KeyedLeaf):
    """Node annotation."""


class TaintLeaf(_KeyedLeaf):
    """Node taint."""


class _Comparing(Model):
    is_: StrictBool | None = Field(default=None, alias="is")
    """Boolean value."""
    equals: StrictInt | Text | None = None
    """Exact value. Use `is` for booleans, `below` and `above` for fractions."""
    below: StrictFloat | None = None
    above: StrictFloat | None = None
    in_: list[StrictInt | Text] | None = Field(
        default=None, alias="in", min_length=1, max_length=64
    )
    """Allowed values."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "[has(self.is), has(self.equals), has(self.below), has(self.above), has(self.__in__)]"
            ".filter(x, x).size() < 2",
            "compares several times: write one of is, equals, below, above and in",
        ),
    )

    @model_validator(mode="after")
    def _compares_once(self) -> "_Comparing":
        if _given(self, ("is_", "equals", "below", "above", "in_")) > 1:
            raise self.cel[0].broken()
        return self


class FactLeaf(_Comparing):
    """Comparison of a built-in or inferred fact. Defaults to `is: true`."""

    name: str = Field(
        min_length=3, max_length=128, pattern=r"^[a-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)+$"
    )
    """Name of the fact, such as `zone.unhealthyRatio`; docs/reference lists types and units."""
    window: TimeWindow | None = None
    """Time window for `time.inWindow`."""
    within: Duration | None = None
    """For `<group>.sameFault`: count nodes on which the fault began within this time, at most 24h.
    """

    cel: ClassVar[tuple[CelRule, ...]] = (
        *_Comparing.cel,
        CelRule(
            "(self.name == 'time.inWindow') == has(self.window)",
            "time.inWindow needs `window`, and no other fact takes it",
            "window",
        ),
    )

    @model_validator(mode="after")
    def _check_window(self) -> "FactLeaf":
        if (self.name == "time.inWindow") != (self.window is not None):
            raise self.cel[1].broken()
        return self


class ProbeLeaf(_Comparing):
    """Comparison of a probe of the host, cloud or API. Runs only if all other leaves hold."""

    name: str = Field(min_length=3, max_length=128, pattern=r"^[a-z]+\.[a-z_]+$")
    """`probe.field`, such as `disk.images_unused_bytes`; see docs/reference."""
    for_: Duration = Field(default=timedelta(0), alias="for")
    """Minimum time for which all answers must fit the comparison, at most 1h."""
    max_age: Duration = timedelta(minutes=1)
    """Maximum age of the answer. Older answers are unknown."""


LEAVES = (
    "condition",
    "event",
    "host_event",
    "alert",
    "label",
    "annotation",
    "taint",
    "fact",
    "probe",
)
_LEAVES_AND_ABSENCE = (*LEAVES, "absent")
COMBINATORS = ("all", "any", "not_")
_WIRE = {"host_event": "hostEvent", "not_": "not"}
Leaf = (
    ConditionLeaf | EventLeaf | HostEventLeaf | AlertLeaf | LabelLeaf | AnnotationLeaf | TaintLeaf
    | FactLeaf | ProbeLeaf
)  # fmt: skip


class AbsentLeaf(Model):
    """Leaf that has been false for a minimum time while its source was live."""

    for_: Duration = Field(default=timedelta(0), alias="for")
    """Minimum time. Not allowed for facts and probes, which have no history."""
    condition: ConditionLeaf | None = None
    event: EventLeaf | None = None
    host_event: HostEventLeaf | None = None
    alert: AlertLeaf | None = None
    label: LabelLeaf | None = None
    annotation: AnnotationLeaf | None = None
    taint: TaintLeaf | None = None
    fact: FactLeaf | None = None
    probe: ProbeLeaf | None = None

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "[" + ", ".join(f"has(self.{_WIRE.get(n, n)})" for n in LEAVES) + "]"
            ".filter(x, x).size() == 1",
            "says not what is absent, or several things: write one leaf, such as condition",
        ),
    )

    @model_validator(mode="after")
    def _check_leaf(self) -> "AbsentLeaf":
        if _given(self, LEAVES) != 1:
            raise self.cel[0].broken()
        return self

    @property
    def leaf(self) -> Leaf:
        given_leaf: Leaf = next(getattr(self, n) for n in LEAVES if getattr(self, n) is not None)
        return given_leaf


class Expression(Model):
    """Exactly one combinator or leaf."""

    all: "list[Expression] | None" = Field(default=None, min_length=1, max_length=WIDTH)
    any: "list[Expression] | None" = Field(default=None, min_length=1, max_length=WIDTH)
    not_: "Expression | None" = Field(default=None, alias="not")
    condition: ConditionLeaf | None = None
    event: EventLeaf | None = None
    host_event: HostEventLeaf | None = None
    alert: AlertLeaf | None = None
    label: LabelLeaf | None = None
    annotation: AnnotationLeaf | None = None
    taint: TaintLeaf | None = None
    fact: FactLeaf | None = None
    probe: ProbeLeaf | None = None
    absent: AbsentLeaf | None = None

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "["
            + ", ".join(
                f"has(self.{_WIRE.get(n, n)})" for n in (*COMBINATORS, *_LEAVES_AND_ABSENCE)
            )
            + "].filter(x, x).size() == 1",
            "not one thing: write one of all, any, not, or one leaf such as condition",
        ),
    )

    @model_validator(mode="after")
    def _check_single_key(self) -> "Expression":
        if _given(self, (*COMBINATORS, *_LEAVES_AND_ABSENCE)) != 1:
            raise self.cel[0].broken()
        return self

    @property
    def members(self) -> "tuple[Expression, ...]":
        """Return the operands of a combinator. Empty for a leaf."""
        if self.not_ is not None:
            return (self.not_,)
        return tuple(self.all if self.all is not None else self.any or ())

    @property
    def leaf(self) -> "Leaf | AbsentLeaf | None":
        """Return the leaf, or None for a combinator."""
        for name in _LEAVES_AND_ABSENCE:
            if (given_leaf := getattr(self, name)) is not None:
                leaf: Leaf | AbsentLeaf = given_leaf
                return leaf
        return None

    @property
    def depth(self) -> int:
        """Return the number of combinators on the longest path to a leaf."""
        return 1 + max(m.depth for m in self.members) if self.members else 0

    def leaves(self) -> "Iterator[Leaf | AbsentLeaf]":
        if (leaf := self.leaf) is not None:
            yield leaf
        for member in self.members:
            yield from member.leaves()

    def unwrap_leaves(self) -> "Iterator[Leaf]":
        """Yield all leaves. For an absence, yield the leaf that must be absent."""
        for leaf in self.leaves():
            yield leaf.leaf if isinstance(leaf, AbsentLeaf) else leaf


def shallow(deepest: int = DEPTH) -> Callable[[Expression | None], Expression | None]:
    """Return a validator that limits the nesting of an expression to `deepest` combinators."""

    def check(expression: Expression | None) -> Expression | None:
        if expression is not None and expression.depth > deepest:
            raise refusal(
                f"nests {expression.depth} of all, any and not inside one another, at most "
                f"{deepest} may be: give a part of it a name with an `infer` rule"
            )
        return expression

    return check
