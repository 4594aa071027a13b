"""Whether we lead, and how long a write of who leads may be on its way."""

import pytest

from kubenode.runtime.fence import AlwaysLeader, LeaseLost, leads, under, write_seconds


class Ending:
    """A reign of which each question costs a moment."""

    def __init__(self, left: float) -> None:
        self._left = left

    def remaining_seconds(self) -> float:
        self._left -= 0.5
        return self._left

    def check(self) -> int:
        if self.remaining_seconds() <= 0:
            raise LeaseLost("over")
        return 1


def test_who_tells_of_the_lease_asks_the_fence() -> None:
    assert leads(AlwaysLeader())
    assert leads(Ending(1.0))
    assert not leads(Ending(0.0))


def test_a_write_is_no_longer_on_its_way_than_the_reign_lasts() -> None:
    assert write_seconds(15.0) == 15.0
    with under(Ending(10.0)):
        assert write_seconds(15.0) == 9.5
        assert write_seconds(3.0) == 3.0
        assert write_seconds(None) == 7.5


@pytest.mark.parametrize("left", [0.0, 0.5, 1.0, 1.01, 1.5, 1.6])
def test_no_write_at_the_end_of_a_reign_is_on_its_way_for_ever(left: float) -> None:
    """For an HTTP client 0 seconds are no limit at all."""
    with under(Ending(left)):
        try:
            seconds = write_seconds(15.0)
        except LeaseLost:
            return
    assert seconds is not None
    assert seconds > 0
