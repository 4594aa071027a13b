"""A server that refuses thousands of clients at once gives them all the same time to wait."""

from kubenode.runtime.kube.client import RETRY_AFTER_SPREAD, delay_before_read
from kubenode.runtime.kube.errors import error_for


def test_a_read_waits_no_shorter_than_the_server_asks_and_not_in_step_with_others() -> None:
    refused = error_for(429, "TooManyRequests", retry_after=2.0)
    draws = iter((0.0, 0.5, 1.0))
    delays = [delay_before_read(refused, 1, lambda: next(draws)) for _ in range(3)]
    assert delays == [2.0, 2.0 * (1 + RETRY_AFTER_SPREAD / 2), 2.0 * (1 + RETRY_AFTER_SPREAD)]


def test_a_read_is_not_repeated_when_that_cannot_help() -> None:
    assert delay_before_read(error_for(404, "NotFound"), 1) is None
