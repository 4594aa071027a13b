"""When authorities and serving certificates are replaced, and which are trusted meanwhile.

Pure, except for the randomness of new keys.

    authority   replaced at two thirds of its life; the old one stays trusted until it ends
    serving     replaced at two thirds of its life, for other names, or to be signed by the newest
                authority, but not before callers had time to read that one

So a caller that trusts the present bundle, or the one of `settle` ago, always trusts the serving
certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubenode.runtime.tls.certificates import (
    Pair,
    UnreadablePem,
    due_at,
    ends_at,
    fits,
    is_ours,
    made_at,
    names_of,
    new_authority,
    new_serving,
    signed_by,
    split,
)

MOST_AUTHORITIES = 4
"""Authorities in a bundle. More would mean a rotation without end."""


@dataclass(frozen=True, slots=True)
class CertificateLifetimes:
    """Lifetimes of certificates.

    settle: time from the publication of a new authority until it may sign serving certificates
    """

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=30)
    settle: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Keys:
    """The authorities and the serving certificate that all replicas share.

    authorities: PEM certificates, oldest first; the last one signs
    signing: private key of the last one
    serving: None if there is none yet
    """

    authorities: tuple[bytes, ...]
    signing: bytes
    serving: Pair | None = None


def usable(keys: Keys | None, now: datetime) -> Keys | None:
    """Return the usable part of `keys`, None if there is none."""
    if keys is None or not keys.authorities:
        return None
    newest = keys.authorities[-1]
    try:
        if ends_at(newest) <= now or not fits(Pair(newest, keys.signing)):
            return None
        alive = tuple(a for a in keys.authorities if ends_at(a) > now)
    except UnreadablePem:
        return None
    serving = keys.serving if keys.serving and _sound(keys.serving, alive) else None
    return replace(keys, authorities=alive[-MOST_AUTHORITIES:], serving=serving)


def _sound(serving: Pair, authorities: Sequence[bytes]) -> bool:
    try:
        return fits(serving) and _trusted(serving, authorities)
    except UnreadablePem:
        return False


def renewed(
    keys: Keys | None, names: Sequence[str], lives: CertificateLifetimes, now: datetime
) -> Keys:
    """Return `keys` as they should be now; equal to them if nothing is due."""
    good = usable(keys, now)
    if good is None:
        made = new_authority(lives.authority, now)
        good = Keys((made.certificate,), made.key)
    elif due_at(good.authorities[-1]) <= now:
        made = new_authority(lives.authority, now)
        retained = good.authorities[-(MOST_AUTHORITIES - 1) :]
        good = Keys((*retained, made.certificate), made.key, good.serving)
    return _with_serving(good, names, lives, now)


def _with_serving(
    keys: Keys, names: Sequence[str], lives: CertificateLifetimes, now: datetime
) -> Keys:
    newest, serving = keys.authorities[-1], keys.serving
    if serving is not None and ends_at(serving.certificate) > now:
        old = not signed_by(serving.certificate, newest)
        if old and now < made_at(newest) + lives.settle:
            return keys  # callers may not have read the new authority yet
        same = set(names) <= names_of(serving.certificate)
        if not old and same and now < due_at(serving.certificate):
            return keys
    return replace(keys, serving=new_serving(Pair(newest, keys.signing), names, lives.serving, now))


def _trusted(serving: Pair, authorities: Sequence[bytes]) -> bool:
    return any(signed_by(serving.certificate, authority) for authority in authorities)


def next_at(keys: Keys, lives: CertificateLifetimes) -> datetime:
    """Return the earliest time at which `renewed` would change something."""
    newest = keys.authorities[-1]
    times = [due_at(newest)]
    if keys.serving is not None:
        times.append(due_at(keys.serving.certificate))
        if not signed_by(keys.serving.certificate, newest):
            times.append(made_at(newest) + lives.settle)
    if len(keys.authorities) > 1:
        times.append(ends_at(keys.authorities[0]))
    return min(times)


def bundle(keys: Keys, published: bytes, now: datetime) -> bytes:
    """Return the authorities that callers should trust.

    They are ours, and earlier ones of ours that a replica may still serve with (because the Secret
    was lost, or the replica has not read the new one).

    published: the present bundle; what is not ours, or malformed, is dropped
    """
    try:
        before = [a for a in split(published) if is_ours(a) and ends_at(a) > now]
    except UnreadablePem:
        before = []
    ours = [a for a in keys.authorities if ends_at(a) > now]
    older = [a for a in before if a not in ours]
    retained = older[-(MOST_AUTHORITIES - len(ours)) :] if len(ours) < MOST_AUTHORITIES else []
    return b"".join([*retained, *ours])


def trusts(published: bytes, serving: Pair) -> bool:
    """Return whether a caller that trusts `published` accepts the serving certificate."""
    try:
        return _trusted(serving, split(published))
    except UnreadablePem:
        return False
