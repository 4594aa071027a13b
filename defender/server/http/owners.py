"""Ownership of permits: only the caller that asked for a permit may renew, ask again and release
it.

The Permit's holder stores the authenticated caller. Another caller needs the right to update
`permits/release-any`. Holders of kinds that belong to our programs may only be named by these
programs, or with the right to create `permits/ask-any`. A Permit without a caller, of an earlier
version or requested within Kube Defender's process, belongs to the program of its holder's kind; of
another kind, to anyone who may ask; and of the admission webhook, to nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from defender.client import Permits
from defender.server.auth.gate import RequestAuthenticator
from defender.server.auth.rights import ASK_ANY, RELEASE_ANY
from defender.server.http.failures import HttpRefusal
from defender.webhook.acts import USER
from kubenode.api.v1alpha1 import Ask
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube.identity import Identity, Proof

LONGEST_USER = 512


class OnRecord(Protocol):
    """A permit in the ledger."""

    @property
    def holder(self) -> Holder: ...


class PermitLookup(Protocol):
    """The part of the ledger that is needed."""

    def get(self, name: str) -> OnRecord | None: ...

    def open_of(self, holder: Holder, node: str) -> OnRecord | None: ...


@dataclass(frozen=True, slots=True)
class Owners:
    """Data about ownership.

    record: the existing permits. None: no permit is known before it is requested.
    users: the users that may name holders of a kind. Kinds that are missing are open to all.
    """

    record: PermitLookup | None = None
    users: Mapping[str, frozenset[str]] = field(default_factory=dict)


class PermitOwnership:
    """Check before each call that takes, renews or releases a permit."""

    def __init__(self, gate: RequestAuthenticator, permits: Permits, owners: Owners) -> None:
        self._gate, self._permits, self._owners = gate, permits, owners

    async def authorize_ask(self, who: Identity, ask: Ask) -> Ask:
        """Return the ask with the authenticated caller. Raises HttpRefusal and Unverified."""
        user, uid = _user(who), (who.uid[:128] or None) if who.of_the_api_server else None
        holder = ask.holder.model_copy(update={"user": user, "user_uid": uid})
        if user is not None:
            bound = self._owners.users.get(holder.kind)
            if bound is not None and who.name not in bound:
                await self._need(who, "create", ASK_ANY, f"ask for a {holder.kind}")
        record = self._owners.record
        mine = record.open_of(holder, ask.node) if record is not None else None
        if mine is not None and not self._is_theirs(who, mine.holder):
            what = (
                f"ask again for {holder.kind} {holder.name}, which {_describe_owner(mine.holder)}"
            )
            await self._need(who, "update", RELEASE_ANY, what)
        return ask.model_copy(update={"holder": holder})

    async def of_permit(self, who: Identity, name: str, act: str) -> None:
        """Check that the permit is the caller's. Raises HttpRefusal if it is not, and
        Unverified.
        """
        record = self._owners.record
        if record is None or who.proof is Proof.LOOPBACK:
            return
        if record.get(name) is None:
            await self._permits.check(name, 0)  # another replica may have granted it just now
        permit = record.get(name)
        if permit is not None and not self._is_theirs(who, permit.holder):
            what = f"{act} permit {name}, which {_describe_owner(permit.holder)}"
            await self._need(who, "update", RELEASE_ANY, what)

    def _is_theirs(self, who: Identity, holder: Holder) -> bool:
        if who.proof is Proof.LOOPBACK:
            return True
        if holder.user is not None:
            return holder.user == _user(who)
        if _user(who) is None:
            return True
        bound = self._owners.users.get(holder.kind)
        return holder.kind != USER and (bound is None or who.name in bound)

    async def _need(self, who: Identity, verb: str, resource: str, what: str) -> None:
        if not await self._gate.may(who, verb, resource):
            right = f"{verb} {resource} of kubenode.io"
            raise HttpRefusal(403, f"{who.name} may not {what}: that needs the right to {right}")


def _user(who: Identity) -> str | None:
    """Return the user name, None for the bearer of the token file and for loopback."""
    return who.name[:LONGEST_USER] if who.of_the_api_server else None


def _describe_owner(holder: Holder) -> str:
    if holder.user is not None:
        return f"{holder.user} asked for"
    return f"is held for {holder.kind} {holder.name}"
