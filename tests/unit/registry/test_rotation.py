"""Certificates of the webhook: made, rotated, published, and trusted at every moment."""

from datetime import timedelta
from itertools import count

import pytest
from support.clock import T0, FakeClock
from support.tls_world import Died, Replica, TlsWorld, a_keeper

from kubenode.runtime.kube.errors import Conflict
from kubenode.runtime.tls.certificates import (
    Pair,
    UnreadablePem,
    due_at,
    ends_at,
    made_at,
    names_of,
    new_authority,
    new_serving,
    signed_by,
    split,
)
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.rotation import (
    CertificateLifetimes,
    Keys,
    bundle,
    next_at,
    renewed,
    trusts,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LIVES = CertificateLifetimes(authority=30 * DAY, serving=3 * DAY, settle=timedelta(minutes=5))


def test_the_first_keys_are_made_at_once_and_stay_while_nothing_is_due() -> None:
    keys = renewed(None, ("hook.ns.svc", "10.0.0.1"), LIVES, T0)
    assert keys.serving is not None
    assert signed_by(keys.serving.certificate, keys.authorities[-1])
    assert names_of(keys.serving.certificate) == {"hook.ns.svc", "10.0.0.1"}
    assert renewed(keys, ("hook.ns.svc",), LIVES, T0 + DAY) is not None
    assert renewed(keys, ("hook.ns.svc", "10.0.0.1"), LIVES, T0 + DAY) == keys


def test_both_are_replaced_at_two_thirds_of_their_life() -> None:
    keys = renewed(None, ("hook",), LIVES, T0)
    assert keys.serving is not None
    before, at = timedelta(seconds=1), due_at(keys.serving.certificate)
    assert abs((at - T0) - LIVES.serving * 2 / 3) < HOUR
    assert renewed(keys, ("hook",), LIVES, at - before) == keys
    after = renewed(keys, ("hook",), LIVES, at)
    assert after.authorities == keys.authorities and after.serving != keys.serving
    assert next_at(keys, LIVES) == at


def test_a_new_authority_signs_only_after_callers_had_time_to_hear_of_it() -> None:
    keys = renewed(None, ("hook",), LIVES, T0)
    at = due_at(keys.authorities[0])
    keys = renewed(keys, ("hook",), LIVES, at - HOUR)
    both = renewed(keys, ("hook",), LIVES, at)
    assert len(both.authorities) == 2 and both.serving == keys.serving
    settled = made_at(both.authorities[1]) + LIVES.settle
    assert renewed(both, ("hook",), LIVES, settled - timedelta(seconds=1)) == both
    assert next_at(both, LIVES) == settled
    after = renewed(both, ("hook",), LIVES, settled)
    assert after.serving is not None
    assert signed_by(after.serving.certificate, both.authorities[1])
    assert after.authorities == both.authorities, "the old one is trusted until it ends"
    ended = renewed(after, ("hook",), LIVES, ends_at(both.authorities[0]))
    assert ended.authorities == both.authorities[1:]


def test_a_serving_certificate_never_outlives_its_authority() -> None:
    authority = new_authority(DAY, T0)
    assert ends_at(new_serving(authority, ("hook",), 9 * DAY, T0).certificate) == ends_at(
        authority.certificate
    )


def test_other_names_are_served_at_once() -> None:
    keys = renewed(None, ("hook",), LIVES, T0)
    after = renewed(keys, ("hook", "10.0.0.2"), LIVES, T0)
    assert after.serving is not None and names_of(after.serving.certificate) >= {"10.0.0.2"}


@pytest.mark.parametrize("spoil", ["authorities", "signing", "serving"])
def test_what_cannot_be_read_is_made_anew(spoil: str) -> None:
    good = renewed(None, ("hook",), LIVES, T0)
    assert good.serving is not None
    bad = {
        "authorities": Keys((b"not PEM",), good.signing, good.serving),
        "signing": Keys(good.authorities, b"not a key", good.serving),
        "serving": Keys(good.authorities, good.signing, Pair(b"x", good.serving.key)),
    }[spoil]
    after = renewed(bad, ("hook",), LIVES, T0)
    assert after.serving is not None and signed_by(after.serving.certificate, after.authorities[-1])
    if spoil == "serving":
        assert after.authorities == good.authorities


def test_a_lost_secret_leaves_its_authority_in_the_bundle() -> None:
    old, new = (renewed(None, ("hook",), LIVES, T0) for _ in range(2))
    assert old.serving is not None and new.serving is not None
    published = bundle(new, b"".join(old.authorities), T0)
    assert trusts(published, old.serving) and trusts(published, new.serving)
    assert bundle(new, published, T0 + 31 * DAY) == b"", "all of them have ended"


def test_a_strangers_authority_does_not_stay_in_the_bundle() -> None:
    keys = renewed(None, ("hook",), LIVES, T0)
    assert keys.serving is not None
    stranger = keys.serving.certificate  # a certificate of another name
    assert bundle(keys, stranger, T0) == b"".join(keys.authorities)
    assert bundle(keys, b"no PEM", T0) == b"".join(keys.authorities)


def test_a_bundle_stays_bounded_however_often_the_secret_is_lost() -> None:
    published = b""
    for _ in range(9):
        published = bundle(renewed(None, ("hook",), LIVES, T0), published, T0)
    assert len(split(published)) == 4


def test_a_context_refuses_a_key_of_another_certificate() -> None:
    one, other = new_authority(DAY, T0), new_authority(DAY, T0)
    context = LiveContext()
    with pytest.raises(UnreadablePem):
        context.load(Pair(one.certificate, other.key))
    assert context.pair is None and not context.loaded.is_set()


# -- replicas, one Secret ------------------------------------------------------------------------


async def turn(replica: Replica) -> float:
    try:
        return await replica.keeper.round()
    except Conflict:
        return 0.1


@pytest.mark.exhaustive
async def test_callers_trust_what_two_replicas_serve_at_every_moment_of_a_year() -> None:
    clock = FakeClock()
    world = TlsWorld(clock)
    lives = CertificateLifetimes(60 * DAY, 9 * DAY, timedelta(minutes=5))
    replicas = [a_keeper(world, lives) for _ in range(2)]
    heard: bytes = b""  # what the API server trusts: it hears of a change a moment later
    served = set()
    due = [0.0, 0.0]
    for _ in range(400):
        for n, replica in enumerate(replicas):
            if clock.monotonic() >= due[n]:
                # Quiet weeks are walked in long steps; a poll is a minute on a real clock.
                pause = await turn(replica)
                due[n] = clock.monotonic() + (86_400.0 if pause == 60.0 else pause)
            pair = replica.context.pair
            assert pair is not None
            served.add(pair.certificate)
            if heard:
                assert trusts(heard, pair), "a caller met a certificate that it does not trust"
            assert ends_at(pair.certificate) > clock.now()
        heard = world.bundle or b""
        clock.step(timedelta(seconds=max(min(due) - clock.monotonic(), 1.0)))
        if clock.now() > T0 + 365 * DAY:
            break
    assert clock.now() > T0 + 300 * DAY
    assert len(served) > 40
    assert len(split(world.bundle or b"")) <= 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
async def test_dying_at_any_write_of_a_rotation_ends_with_one_trusted_certificate(
    applied: bool,
) -> None:
    for die_at in count(1):
        clock = FakeClock()
        world = TlsWorld(clock, die_at=die_at, applied=applied)
        replica = a_keeper(world, LIVES)
        for _ in range(26):
            try:
                await turn(replica)
            except Died:
                replica = a_keeper(world, LIVES)
                await turn(replica)
            assert replica.context.pair is not None
            assert trusts(world.bundle or b"", replica.context.pair)
            clock.step(DAY)
        if world.writes < die_at:
            return


async def test_of_two_replicas_that_start_together_both_serve_what_one_made() -> None:
    world = TlsWorld(FakeClock())
    one, other = a_keeper(world, LIVES), a_keeper(world, LIVES)
    await turn(one)
    await turn(other)
    assert one.context.pair == other.context.pair is not None


async def test_without_a_configuration_the_server_has_its_certificate_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = TlsWorld(FakeClock())
    world.bundle = None
    replica = a_keeper(world, LIVES)
    await turn(replica)
    await turn(replica)
    assert replica.context.loaded.is_set()
    said = [r for r in caplog.records if r.getMessage() == "certificate of the webhook"]
    assert len(said) == 1


async def test_a_deleted_secret_costs_no_request() -> None:
    clock = FakeClock()
    world = TlsWorld(clock)
    replica = a_keeper(world, LIVES)
    await turn(replica)
    await turn(replica)
    before = replica.context.pair
    heard, world.secret = world.bundle or b"", None
    await turn(replica)
    assert replica.context.pair == before, "callers have not heard of the new authority"
    assert trusts(heard, replica.context.pair or Pair(b"", b""))
    clock.step(timedelta(minutes=1))
    await turn(replica)
    assert replica.context.pair != before
    assert trusts(world.bundle or b"", replica.context.pair or Pair(b"", b""))
