"""The generator of odd objects: the fuzz is worth what it makes."""

from functools import cache

import pytest
from support.api_objects import GOOD
from support.odd_objects import (
    DEPTH,
    MEGABYTE,
    NESTED,
    TIMES,
    OddObjects,
    encoded,
    enums,
    words,
)

from kubenode.api.v1alpha1 import KINDS

GIVEN = {good["kind"]: good for good in GOOD.values()}
NAMES = [kind.__name__ for kind in KINDS]


@cache
def made() -> OddObjects:
    return OddObjects(1, GIVEN)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.exhaustive
def test_every_value_of_every_enum_is_generated(kind: str) -> None:
    odd = made()
    wanted = {(way, word) for way, choice in enums(odd.schemas[kind]) for word in choice}
    found = {
        each
        for number in range(0, odd.enough(kind), 2)
        for each in words(odd.of(kind, "odd-0", number))
        if each in wanted
    }
    assert found == wanted


@pytest.mark.exhaustive
def test_the_same_number_is_the_same_object_whatever_was_made_before() -> None:
    one, other = made(), OddObjects(1, GIVEN)
    for number in range(20):
        other.of("Machine", "odd-0", number)
    assert one.of("HostEvent", "odd-3", 3) == other.of("HostEvent", "odd-3", 3)
    assert one.of("HostEvent", "odd-3", 3) != OddObjects(2, GIVEN).of("HostEvent", "odd-3", 3)


@pytest.mark.exhaustive
def test_the_extremes_are_generated() -> None:
    text = b"".join(
        encoded(made().of(kind, "odd-0", number)) for kind in NAMES for number in range(80)
    ).decode()
    assert "0001-01-01T00:00:00Z" in text and "9999-12-31T23:59:59Z" in text
    assert MEGABYTE in text
    assert '{"a":' * DEPTH in text
    assert NESTED not in text
    assert "9223372036854775807" in text
    assert str(2**31 - 1) in text and str(-(2**31)) in text
    assert len(TIMES) == len(set(TIMES))
