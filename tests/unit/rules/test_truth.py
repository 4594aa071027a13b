from itertools import product

import pytest

from rules.truth import Truth

T, U, F = Truth.TRUE, Truth.UNKNOWN, Truth.FALSE


def test_de_morgan_and_double_negation_hold() -> None:
    for a, b in product(Truth, Truth):
        assert ~(a & b) == (~a | ~b)
        assert ~~a == a
        assert a & b == b & a
        assert a | b == b | a


def test_unknown_satisfies_neither_a_nor_not_a() -> None:
    assert (U & ~U, U | ~U, ~U) == (U, U, U)


def test_what_decides_alone_decides_beside_an_unknown() -> None:
    assert (U & F, U | T) == (F, T)


def test_many_are_folded_like_two() -> None:
    assert Truth.all([T, U]) is U and Truth.any([F, U]) is U
    assert Truth.all([]) is T and Truth.any([]) is F


def test_a_truth_is_no_bool() -> None:
    with pytest.raises(TypeError, match="three values"):
        bool(T)
