"""What becomes of a Machine's bootstrap token. Pure: what is seen, to one act.

A token is named in the Machine's status before it is made, so a kill leaves none behind that nobody
knows. It is made late, renewed while its host has not joined, and revoked once the host has.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from machine.certificates.case import BootstrapToken


class Need(StrEnum):
    """NONE    no token: the host has joined, or it is not there yet
    WANTED  the host has to join
    FETCH   a certificate is granted; the token is what fetches it, for a little longer
    """

    NONE = "None"
    WANTED = "Wanted"
    FETCH = "Fetch"


class BootstrapAct(StrEnum):
    """NAME write a new token ID; MAKE its Secret; RENEW, SHORTEN its life; REVOKE the Secret;
    FORGET the ID."""

    NONE = "None"
    NAME = "Name"
    MAKE = "Make"
    RENEW = "Renew"
    SHORTEN = "Shorten"
    REVOKE = "Revoke"
    FORGET = "Forget"


@dataclass(frozen=True, slots=True)
class TokenLifetimes:
    """life   of a token; it is renewed when half of it is over
    fetch  what is left of it once a certificate is granted
    """

    life: timedelta = timedelta(seconds=3600)
    fetch: timedelta = timedelta(seconds=600)


@dataclass(frozen=True, slots=True)
class BootstrapObservation:
    """token_id  as the status names it, "" for none
    token     its Secret; None: there is none
    bound     whether that Secret is bound to this Machine
    """

    need: Need
    token_id: str
    token: BootstrapToken | None
    bound: bool
    now: datetime


def step(seen: BootstrapObservation, lives: TokenLifetimes) -> tuple[BootstrapAct, datetime | None]:
    """One act, and when to look again though nothing changes (None: not)."""
    token = seen.token if seen.bound else None
    if seen.need is Need.NONE:
        return _leave(seen, token)
    if seen.need is Need.FETCH:
        return _fetch(seen, token, lives)
    if not seen.token_id or (seen.token is not None and not seen.bound):
        return BootstrapAct.NAME, seen.now
    if token is None:
        return BootstrapAct.MAKE, seen.now + lives.life / 2
    renew_at = token.expires_at - lives.life / 2
    if renew_at <= seen.now:
        return BootstrapAct.RENEW, seen.now + lives.life / 2
    return BootstrapAct.NONE, renew_at


def _leave(
    seen: BootstrapObservation, token: BootstrapToken | None
) -> tuple[BootstrapAct, datetime | None]:
    if token is not None:
        return BootstrapAct.REVOKE, seen.now
    return (BootstrapAct.FORGET, None) if seen.token_id else (BootstrapAct.NONE, None)


def _fetch(
    seen: BootstrapObservation, token: BootstrapToken | None, lives: TokenLifetimes
) -> tuple[BootstrapAct, datetime | None]:
    if token is None or token.expires_at <= seen.now:
        return _leave(seen, token)
    if token.expires_at > seen.now + lives.fetch:
        return BootstrapAct.SHORTEN, seen.now + lives.fetch
    return BootstrapAct.NONE, token.expires_at
