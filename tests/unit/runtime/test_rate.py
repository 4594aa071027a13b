from datetime import timedelta

from support.clock import FakeClock

from kubenode.runtime.rate import Backoff, TokenBucket


def test_a_burst_passes_then_the_rate_holds() -> None:
    clock = FakeClock()
    bucket = TokenBucket(rate=2, burst=3, clock=clock)
    assert [bucket.reserve() for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    clock.step(timedelta(seconds=100))
    assert [bucket.allow() for _ in range(4)] == [True, True, True, False]
    clock.step(timedelta(seconds=0.5))
    assert [bucket.allow(), bucket.allow()] == [True, False]


def test_delays_double_with_jitter_up_to_the_bound() -> None:
    assert [b.next() for b in [Backoff(0.5, 10, lambda: 1.0)] for _ in range(7)] == [
        0.5,
        1,
        2,
        4,
        8,
        10,
        10,
    ]
    low = Backoff(0.5, 10, lambda: 0.0)
    assert [low.next(), low.next()] == [0.25, 0.5]
    low.reset()
    assert low.next() == 0.25
