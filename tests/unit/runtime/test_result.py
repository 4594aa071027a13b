from datetime import timedelta

import pytest

from kubenode.runtime.controller.result import DONE, Result, soonest


def test_a_result_is_not_a_bool() -> None:
    with pytest.raises(TypeError):
        bool(DONE)


def test_the_soonest_wake_up_wins() -> None:
    a, b = Result(timedelta(seconds=5)), Result(timedelta(seconds=3))
    assert soonest(a, DONE, b) == b
    assert soonest(DONE) == DONE
