"""Decide what happens to a Machine's bootstrap token. Pure: observation in, one act out.

The status names a token before it is created, so a crash leaves no unknown token. A token is
created late, renewed while its host has not joined, and revoked once it has. With `node: Join` the
host has joined when its Node has been Ready, because its kubelet needs the token too.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from machine.certificates.case import BootstrapToken


class Need(StrEnum):
    """Need of a Machine for a token.

    NONE: the host has joined, or does not exist yet.
    WANTED: the host has to join.
    FETCH: a certificate is granted, and the token is needed a little longer to fetch it.
    """

    NONE = "None"
    WANTED = "Wanted"
    FETCH = "Fetch"


class BootstrapAct(StrEnum):
    """Acts on a token.

    NAME: write a new token ID to the status.
    MAKE: create its Secret.
    RENEW, SHORTEN: change its expiry.
    REVOKE: delete the Secret.
    FORGET: remove the ID from the status.
    """

    NONE = "None"
    NAME = "Name"
    MAKE = "Make"
    RENEW = "Renew"
    SHORTEN = "Shorten"
    REVOKE = "Revoke"
    FORGET = "Forget"


@dataclass(frozen=True, slots=True)
class TokenLifetimes:
    """Lifetimes of tokens.

    life: lifetime of a token, which is renewed when half of it has passed.
    fetch: remaining lifetime once a certificate is granted.
    """

    life: timedelta = timedelta(seconds=3600)
    fetch: timedelta = timedelta(seconds=600)


@dataclass(frozen=True, slots=True)
class BootstrapObservation:
    """What is known of a token.

    token_id: the ID in the status, "" for none.
    token: the token in its Secret, None if there is none.
    bound: whether that Secret is bound to this Machine.
    """

    need: Need
    token_id: str
    token: BootstrapToken | None
    bound: bool
    now: datetime


def step(
    observation: BootstrapObservation, lives: TokenLifetimes
) -> tuple[BootstrapAct, datetime | None]:
    """Return one act, and when to reconcile again if nothing changes, None for never."""
    token = observation.token if observation.bound else None
    if observation.need is Need.NONE:
        return _leave(observation, token)
    if observation.need is Need.FETCH:
        return _fetch(observation, token, lives)
    if not observation.token_id or (observation.token is not None and not observation.bound):
        return BootstrapAct.NAME, observation.now
    if token is None:
        return BootstrapAct.MAKE, observation.now + lives.life / 2
    renew_at = token.expires_at - lives.life / 2
    if renew_at <= observation.now:
        return BootstrapAct.RENEW, observation.now + lives.life / 2
    return BootstrapAct.NONE, renew_at


def _leave(
    observation: BootstrapObservation, token: BootstrapToken | None
) -> tuple[BootstrapAct, datetime | None]:
    if token is not None:
        return BootstrapAct.REVOKE, observation.now
    return (BootstrapAct.FORGET, None) if observation.token_id else (BootstrapAct.NONE, None)


def _fetch(
    observation: BootstrapObservation, token: BootstrapToken | None, lives: TokenLifetimes
) -> tuple[BootstrapAct, datetime | None]:
    if token is None or token.expires_at <= observation.now:
        return _leave(observation, token)
    if token.expires_at > observation.now + lives.fetch:
        return BootstrapAct.SHORTEN, observation.now + lives.fetch
    return BootstrapAct.NONE, token.expires_at
