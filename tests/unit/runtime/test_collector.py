"""The collector pauses while objects are built, and is as it was afterwards."""

import gc

import pytest

from kubenode.runtime.collector import paused_collector


def test_collector_is_off_inside_and_on_again_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="inside"), paused_collector():
        assert not gc.isenabled()
        raise ValueError("inside")
    assert gc.isenabled()


def test_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
