"""Who may take a lease, by what was seen and when, on one monotonic clock."""

import pytest

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.lease import NO_SIGHTING, LeaderElection, Sighting, new_identity


def spec(holder: str, renewed: str, duration: int = 15) -> dict[str, object]:
    return {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration}


def test_a_follower_waits_a_whole_ttl_after_it_saw_the_lease_change() -> None:
    seen = NO_SIGHTING.update(spec("other", "t1"), 15, now=100)
    assert not seen.free("me", 114.9)
    assert seen.free("me", 115)
    same = seen.update(spec("other", "t1"), 15, now=110)
    assert same.observed_at == 100, "seeing the same again is no sign of life"
    renewed = seen.update(spec("other", "t2"), 15, now=110)
    assert not renewed.free("me", 124.9)


def test_an_old_renew_time_proves_nothing_as_wall_clocks_are_never_compared() -> None:
    seen = NO_SIGHTING.update(spec("other", "1999-01-01T00:00:00.000000Z"), 15, now=100)
    assert not seen.free("me", 101)


def test_the_duration_the_holder_wrote_counts_not_our_own() -> None:
    assert not NO_SIGHTING.update(spec("other", "t1", 60), 15, now=0).free("me", 59)


@pytest.mark.parametrize("holder", ["", "me"])
def test_a_free_lease_and_our_own_can_be_taken_at_once(holder: str) -> None:
    assert NO_SIGHTING.update(spec(holder, "t1"), 15, now=100).free("me", 100)


def test_an_empty_spec_is_free() -> None:
    assert NO_SIGHTING.update({}, 15, now=0) == Sighting("", "", 15, 0)
    assert NO_SIGHTING.update({}, 15, now=0).free("me", 0)


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 10), (10, 12, 2), (15, 10, 0)])
def test_times_that_could_make_two_leaders_are_refused(times: tuple[float, float, float]) -> None:
    ttl, deadline, retry = times
    kube = Kube(PlainTransport("http://127.0.0.1:1"))
    with pytest.raises(ValueError, match="need 0 < retry < deadline < ttl"):
        LeaderElection(kube, "ns", "l", "me", ttl, deadline, retry)


def test_identities_differ_between_processes_of_one_host() -> None:
    assert new_identity("pod-1") != new_identity("pod-1")
