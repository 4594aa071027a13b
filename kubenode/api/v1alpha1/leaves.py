"""What a rule asks: an expression of leaves under all, any and not.

An expression nests at most three combinators deep (deeper: name a derived fact). Every leaf is
three-valued: true, false or unknown.
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
"""How many combinators (all, any, not) may stand inside one another."""
WIDTH = 16
"""How many members one `all` or `any` may have."""

Text = Annotated[str, StringConstraints(max_length=1024)]
Scalar = StrictBool | StrictInt | StrictFloat | Text


def _given(model: Model, names: tuple[str, ...]) -> int:
    return sum(getattr(model, name) is not None for name in names)


def checked_regex(pattern: str) -> str:
    """`pattern` if RE2 can compile it. Raises ValueError with RE2's own words."""
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
    """A condition of the Node has had this status for a time, by our own clock."""

    type: str = Field(min_length=1, max_length=316)
    """Type of the Node condition, such as `KernelDeadlock`."""
    status: ConditionStatus = ConditionStatus.TRUE
    reason: str | None = Field(default=None, min_length=1, max_length=512)
    """RE2 expression that the condition's reason must contain."""
    message: str | None = Field(default=None, min_length=1, max_length=512)
    """RE2 expression that the condition's message must contain."""
    for_: Duration = Field(default=timedelta(0), alias="for")
    """How long the status must have held, over changes of reason and restarts of the detector.
    Time in which the detector could not be heard does not count, unless it speaks again."""
    max_age: Duration = timedelta(minutes=15)
    """A condition that was not heard from for this long is unknown."""

    _regex = field_validator("reason", "message")(lambda v: v if v is None else checked_regex(v))


class EventLeaf(Model):
    """At least `count` occurrences of an Event of the node within a sliding window."""

    reason: str | None = Field(default=None, min_length=1, max_length=128)
    """The Event's reason, exactly. With a reason the kubelet's warnings about pods of the node
    count as well, but for BackOff and Unhealthy."""
    message: str | None = Field(default=None, min_length=1, max_length=512)
    """RE2 expression that the message must contain."""
    source: str | None = Field(default=None, min_length=1, max_length=128)
    """Component that reported the Event, such as `kernel-monitor`."""
    severity: Literal["Normal", "Warning"] | None = None
    """The Event's type."""
    count: StrictInt = Field(default=1, ge=1, le=1000)
    within: Duration = timedelta(minutes=10)
    """At most 720h. Of over 24h the occurrences stand in the NodeRecord, from when the rule was
    loaded on, and a day before it."""

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
    """A HostEvent of the node is open and fits."""

    class_: str | None = Field(default=None, alias="class", min_length=1, max_length=64)
    """Such as `Reboot`; see HostEvent."""
    source: str | None = Field(default=None, min_length=1, max_length=64)
    phase: str | None = Field(default=None, min_length=1, max_length=64)
    """An open phase; closed events never count."""
    starts_within: Duration = timedelta(minutes=30)
    """An event that has not started counts when it starts within this time."""
    severity: str | None = Field(default=None, min_length=1, max_length=32)


class AlertLeaf(Model):
    """An Alertmanager alert resolved to this node is firing and its source is known to be alive."""

    name: str = Field(min_length=1, max_length=512)
    """RE2 expression that the alert's name must match as a whole."""
    labels: dict[str, Text] = Field(default_factory=dict, max_length=16)
    """Labels that the alert must have, with exactly these values."""
    for_: Duration = Field(default=timedelta(0), alias="for")
    """How long it must have fired."""

    _regex = field_validator("name")(checked_regex)


class _KeyedLeaf(Model):
    key: str = Field(min_length=1, max_length=317)
    value: Text | None = None
    """The value is exactly this."""
    in_: list[Text] | None = Field(default=None, alias="in", min_length=1, max_length=64)
    """The value is one of these."""
    exists: StrictBool | None = None
    """The key is there (true) or is not (false). Default when nothing else is asked: true."""

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
    """A label of the Node."""


class AnnotationLeaf(_KeyedLeaf):
    """An annotation of the Node."""


class TaintLeaf(_KeyedLeaf):
    """A taint of the Node."""


class _Comparing(Model):
    is_: StrictBool | None = Field(default=None, alias="is")
    """The value is true, or false."""
    equals: StrictInt | Text | None = None
    """The value is exactly this; for true and false write `is`, for fractions `below`, `above`."""
    below: StrictFloat | None = None
    above: StrictFloat | None = None
    in_: list[StrictInt | Text] | None = Field(
        default=None, alias="in", min_length=1, max_length=64
    )
    """The value is one of these."""

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
    """A built-in or derived fact compares. With no comparison the fact must be true."""

    name: str = Field(
        min_length=3, max_length=128, pattern=r"^[a-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)+$"
    )
    """Dotted name, such as `zone.unhealthyRatio`; docs/reference lists types and units."""
    window: TimeWindow | None = None
    """For `time.inWindow`, and only for it: the window that is asked."""

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
    """A question answered now by host, cloud or API; asked only when all other leaves hold."""

    name: str = Field(min_length=3, max_length=128, pattern=r"^[a-z]+\.[a-z_]+$")
    """`probe.field`, such as `disk.images_unused_bytes`; docs/reference lists them."""
    max_age: Duration = timedelta(minutes=1)
    """An older answer is unknown."""


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
COMBINATORS = ("all", "any", "not_")
_WIRE = {"host_event": "hostEvent", "not_": "not"}
Leaf = (
    ConditionLeaf | EventLeaf | HostEventLeaf | AlertLeaf | LabelLeaf | AnnotationLeaf | TaintLeaf
    | FactLeaf | ProbeLeaf
)  # fmt: skip


class AbsentLeaf(Model):
    """Another leaf has been false for a time, with its source known to be alive."""

    for_: Duration = Field(default=timedelta(0), alias="for")
    """How long it must have been false; facts and probes take none, they are not remembered."""
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
    """Exactly one of a combinator or a leaf."""

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
            + ", ".join(f"has(self.{_WIRE.get(n, n)})" for n in (*COMBINATORS, *LEAVES, "absent"))
            + "].filter(x, x).size() == 1",
            "not one thing: write one of all, any, not, or one leaf such as condition",
        ),
    )

    @model_validator(mode="after")
    def _check_single_key(self) -> "Expression":
        if _given(self, (*COMBINATORS, *LEAVES, "absent")) != 1:
            raise self.cel[0].broken()
        return self

    @property
    def members(self) -> "tuple[Expression, ...]":
        """What a combinator combines; of a leaf nothing."""
        if self.not_ is not None:
            return (self.not_,)
        return tuple(self.all if self.all is not None else self.any or ())

    @property
    def leaf(self) -> "Leaf | AbsentLeaf | None":
        """The leaf this expression is, or None for a combinator."""
        for name in (*LEAVES, "absent"):
            if (given_leaf := getattr(self, name)) is not None:
                leaf: Leaf | AbsentLeaf = given_leaf
                return leaf
        return None

    @property
    def depth(self) -> int:
        """Combinators on the longest way to a leaf."""
        return 1 + max(m.depth for m in self.members) if self.members else 0

    def leaves(self) -> "Iterator[Leaf | AbsentLeaf]":
        if (leaf := self.leaf) is not None:
            yield leaf
        for member in self.members:
            yield from member.leaves()

    def unwrap_leaves(self) -> "Iterator[Leaf]":
        """What is asked, wherever it stands: of an absence the leaf that is to be absent."""
        for leaf in self.leaves():
            yield leaf.leaf if isinstance(leaf, AbsentLeaf) else leaf


def shallow(deepest: int = DEPTH) -> Callable[[Expression | None], Expression | None]:
    """A validator: an expression nests at most `deepest` combinators."""

    def check(expression: Expression | None) -> Expression | None:
        if expression is not None and expression.depth > deepest:
            raise refusal(
                f"nests {expression.depth} of all, any and not inside one another, at most "
                f"{deepest} may be: give a part of it a name with an `infer` rule"
            )
        return expression

    return check
