"""Issue and revoke the bootstrap tokens of Machines, and write condition AgentReady."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.conditions import ConditionUpdate, set_condition
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.recorder import EventRecorder
from machine.access import MachineAccess, regarding
from machine.bootstrap.agentready import AgentObservation, Lifesign, agent_ready
from machine.bootstrap.lifesigns import Lifesigns
from machine.bootstrap.step import BootstrapAct, BootstrapObservation, Need, TokenLifetimes, step
from machine.bootstrap.tokens import StoredToken, Tokens, new_id
from machine.certificates.records import reissue_wanted
from machine.certificates.requester import machine_of, parse_request
from machine.certificates.wire import APPROVED, DENIED, SigningRequest

OF_MACHINE = "machine"
"""Index of requests by the Machine whose agent they name."""
SOON = timedelta(seconds=1)
"""Least delay of the next reconcile."""
HAVE_FAILED = frozenset({"CreateFailed", "InstanceGone", "StartupTimeout"})
"""Reasons of conditions of Machines that no longer wait for a host."""


@dataclass(frozen=True, slots=True)
class Bootstrapper:
    """Reconciler of bootstrap tokens."""

    machines: Informer[Machine]
    requests: Informer[SigningRequest]
    access: MachineAccess
    tokens: Tokens
    lifesigns: Lifesigns
    clock: Clock
    fence: Fence
    recorder: EventRecorder
    lives: TokenLifetimes = field(default_factory=TokenLifetimes)
    orphans: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """By Machine name, token IDs and UIDs of Machines that are gone.

    A crash loses the entries; then the garbage collector revokes the tokens.
    """

    async def reconcile(self, name: str) -> Result:
        await self._revoke_orphans(name)
        machine = self.machines.get(name)
        if machine is None:
            return DONE
        agent = self._agent(machine)
        need = need_of(machine, joined=_joins(machine, agent))
        token_id = "" if machine.status.bootstrap is None else machine.status.bootstrap.token_id
        stored = await self.tokens.read(token_id) if token_id else None
        observation = BootstrapObservation(
            need,
            token_id,
            None if stored is None else stored.token,
            stored is not None and _bound(stored, machine),
            self.clock.now(),
        )
        act, again = step(observation, self.lives)
        change = self._status(act, observation)
        update = agent_ready(agent)
        if update is not None and (conditions := conditions_with(machine, update, observation.now)):
            change["conditions"] = conditions
        # Change the token first: a revocation is only due until AgentReady=True is written.
        if act in (
            BootstrapAct.MAKE,
            BootstrapAct.RENEW,
            BootstrapAct.SHORTEN,
            BootstrapAct.REVOKE,
        ):
            self.fence.check()
            await self._do(act, machine, observation, stored)
        if change:
            self.fence.check()
            await self.access.write(machine, change)
        return self._again(machine, again, observation.now)

    def changed(self, key: str, old: Machine | None, new: Machine | None) -> tuple[str, ...]:
        """Return the Machine to reconcile. Remember the token of one that is gone."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            bootstrap = old.status.bootstrap
            if bootstrap is not None and bootstrap.token_id:
                orphan = (bootstrap.token_id, old.metadata.uid)
                self.orphans.setdefault(key, set()).add(orphan)
        if (
            old is not None
            and new is not None
            and old is not new
            and _read_inputs(old) == _read_inputs(new)
        ):
            return ()
        return (key,)

    async def _revoke_orphans(self, name: str) -> None:
        for orphan in tuple(self.orphans.get(name, ())):
            token_id, uid = orphan
            stored = await self.tokens.read(token_id)
            if stored is not None and (stored.token.machine, stored.token.machine_uid) == (
                name,
                uid,
            ):
                self.fence.check()
                await self.tokens.revoke(stored)
            self.orphans[name].discard(orphan)
        if name in self.orphans and not self.orphans[name]:
            del self.orphans[name]

    def noticed(
        self, key: str, old: SigningRequest | None, new: SigningRequest | None
    ) -> tuple[str, ...]:
        """Return the Machine of a request that is decided or gone."""
        request = new or old
        if request is None or not (request.decided or new is None):
            return ()
        name = machine_of(parse_request(request))
        return (name,) if name else ()

    def _agent(self, machine: Machine) -> AgentObservation:
        bootstrap, name = machine.status.bootstrap, machine.metadata.name
        return AgentObservation(
            machine=name,
            lifesign=self.lifesigns.of(name),
            expires_at=None if bootstrap is None else bootstrap.certificate_expires_at,
            denied=denied(self.requests.by(OF_MACHINE, name)),
            reissue=reissue_wanted(machine),
            now=self.clock.now(),
        )

    def _status(self, act: BootstrapAct, observation: BootstrapObservation) -> dict[str, Any]:
        match act:
            case BootstrapAct.NAME:
                return {"bootstrap": {"tokenID": new_id()}}
            case BootstrapAct.FORGET:
                return {"bootstrap": {"tokenID": ""}}
            case _:
                return {}

    async def _do(
        self,
        act: BootstrapAct,
        machine: Machine,
        observation: BootstrapObservation,
        stored: StoredToken | None,
    ) -> None:
        if act is BootstrapAct.MAKE:
            if await self.tokens.make(
                observation.token_id, machine, observation.now + self.lives.life
            ):
                what = f"bootstrap token {observation.token_id} is made: `kubenode machine token"
                await self._tell(machine, "BootstrapTokenMade", f"{what} {machine.metadata.name}`")
            return
        assert stored is not None
        if act is BootstrapAct.RENEW:
            await self.tokens.extend(stored, observation.now + self.lives.life)
        elif act is BootstrapAct.SHORTEN:
            await self.tokens.extend(stored, observation.now + self.lives.fetch)
        else:
            await self.tokens.revoke(stored)
            what = f"bootstrap token {observation.token_id} is revoked"
            await self._tell(machine, "BootstrapTokenRevoked", what)

    async def _tell(self, machine: Machine, reason: str, message: str) -> None:
        await self.recorder.emit(regarding(machine), "Normal", reason, message)

    def _again(self, machine: Machine, token: datetime | None, now: datetime) -> Result:
        """Return when to reconcile again: when the token is due, the Lease stale or the certificate
        expired.
        """
        bootstrap = machine.status.bootstrap
        expires = None if bootstrap is None else bootstrap.certificate_expires_at
        waits = [at - now for at in (token, expires) if at is not None and at >= now]
        if (remaining := self.lifesigns.turns_in(machine.metadata.name)) is not None:
            waits.append(timedelta(seconds=remaining))
        return Result(max(SOON, min(waits))) if waits else DONE


def _read_inputs(machine: Machine) -> tuple[object, ...]:
    """Return the properties of a Machine on which its token and AgentReady depend."""
    meta, spec, status = machine.metadata, machine.spec, machine.status
    return (
        meta.uid,
        meta.deletion_timestamp,
        meta.annotations,
        spec.origin,
        spec.provider_id,
        spec.node,
        status.node_ref,
        status.bootstrap,
        status.provisioning,
        status.condition(MachineConditionType.AGENT_READY),
        has_failed(machine),
    )


def need_of(machine: Machine, *, joined: bool) -> Need:
    """Return whether the host needs a token now.

    joined: whether its agent has just become alive.
    """
    spec, bootstrap = machine.spec, machine.status.bootstrap
    if machine.metadata.deletion_timestamp is not None:
        return Need.NONE
    if has_failed(machine):
        return Need.NONE
    provisioning = machine.status.provisioning
    requested = provisioning is not None and provisioning.client_token
    if spec.origin is MachineOrigin.PROVISION and not requested and not spec.provider_id:
        return Need.NONE  # the token is for a new instance, which is requested with a client token
    if reissue_wanted(machine):
        return Need.WANTED
    if bootstrap is None or bootstrap.certificate_expires_at is None:
        return Need.WANTED
    if machine.joins_by_token:
        return Need.WANTED if machine.status.node_ref is None else Need.NONE
    return Need.NONE if joined else Need.FETCH


def has_failed(machine: Machine) -> bool:
    """Return whether the Machine no longer waits for a host."""
    conditions = machine.status.conditions
    return any(condition.reason in HAVE_FAILED for condition in conditions)


def _joins(machine: Machine, agent: AgentObservation) -> bool:
    """Return whether the agent is alive and was not before, so that it has fetched its
    certificate.
    """
    known = machine.status.condition(MachineConditionType.AGENT_READY)
    lived = known is not None and known.status == "True"
    return agent.lifesign is Lifesign.FRESH and not lived


def _bound(stored: StoredToken, machine: Machine) -> bool:
    meta = machine.metadata
    return (stored.token.machine, stored.token.machine_uid) == (meta.name, meta.uid)


def denied(requests: list[SigningRequest]) -> str:
    """Return why the newest decided request was denied, "" if it was approved or there is none."""
    decided = [r for r in requests if r.condition(DENIED) or r.condition(APPROVED)]
    if not decided:
        return ""
    newest = max(decided, key=lambda r: int(r.metadata.resource_version or 0))
    no = newest.condition(DENIED)
    return f"{newest.metadata.name}: {no.reason}: {no.message}"[:1024] if no is not None else ""


def conditions_with(
    machine: Machine, update: ConditionUpdate, now: datetime
) -> list[dict[str, Any]] | None:
    """Return the Machine's conditions with the update, None if nothing changes."""
    type_ = MachineConditionType.AGENT_READY
    known = machine.status.condition(type_)
    if known is not None and (known.status, known.reason, known.message) == (
        update.status,
        update.reason,
        update.message,
    ):
        return None
    generation = machine.metadata.generation
    conditions = set_condition(
        machine.status.conditions, type_, update, generation=generation, now=now
    )
    return [condition.to_dict() for condition in conditions]
