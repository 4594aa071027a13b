"""Kleene's strong three-valued logic: an unknown fact satisfies neither `a` nor `not a`."""

from collections.abc import Iterable
from enum import Enum


class Truth(Enum):
    """TRUE, FALSE or UNKNOWN. UNKNOWN is not a weak FALSE: nothing destructive follows from it."""

    FALSE = -1
    UNKNOWN = 0
    TRUE = 1

    def __and__(self, other: "Truth") -> "Truth":
        return self if self.value <= other.value else other

    def __or__(self, other: "Truth") -> "Truth":
        return self if self.value >= other.value else other

    def __invert__(self) -> "Truth":
        return _NOT[self]

    def __bool__(self) -> bool:
        raise TypeError("a Truth has three values: compare with Truth.TRUE, FALSE or UNKNOWN")

    @classmethod
    def of(cls, value: bool | None) -> "Truth":
        """Return the Truth of a bool; None is UNKNOWN."""
        if value is None:
            return cls.UNKNOWN
        return cls.TRUE if value else cls.FALSE

    @classmethod
    def all(cls, members: Iterable["Truth"]) -> "Truth":
        """Return TRUE for no members."""
        return min(members, key=_weight, default=cls.TRUE)

    @classmethod
    def any(cls, members: Iterable["Truth"]) -> "Truth":
        """Return FALSE for no members."""
        return max(members, key=_weight, default=cls.FALSE)


def _weight(truth: Truth) -> int:
    return truth.value


_NOT = {Truth.TRUE: Truth.FALSE, Truth.UNKNOWN: Truth.UNKNOWN, Truth.FALSE: Truth.TRUE}
