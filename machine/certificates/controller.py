"""Answers the certificate requests of agents, and remembers in each Machine what was granted.

A grant is first written into the Machine, over the version that was read live, and then given: of
two requests by one token one wins, whoever dies in between. Who starts again finds its own name
there and goes on.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import REISSUE
from kubenode.runtime.audit import SILENT, Audit, Line
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.recorder import EventRecorder
from kubenode.runtime.tls.certificates import Unreadable, ends_at
from machine.access import MachineAccess, regarding
from machine.bootstrap.tokens import Tokens
from machine.certificates.checks import (
    LONGEST,
    Case,
    Denial,
    Owner,
    judge,
    look,
    machine_of,
    ours,
    token_id,
)
from machine.certificates.wire import (
    APPROVED,
    DENIED,
    FAILED,
    SigningRequest,
)
from machine.certificates.wire import request as path_of
from machine.metrics import Metrics

log = logging.getLogger(__name__)

PART, WHO = "machine", "kubenode-machine"


@dataclass(frozen=True, slots=True)
class Approver:
    """kube      under an identity that may approve requests of our signers
    requests  of the whole cluster; those of others are passed over
    """

    kube: Kube
    requests: Informer[SigningRequest]
    machines: MachineAccess
    tokens: Tokens
    clock: Clock
    fence: Fence
    recorder: EventRecorder
    metrics: Metrics
    audit: Audit = SILENT

    async def reconcile(self, name: str) -> Result:
        request = self.requests.get(name)
        if request is None or not ours(request):
            return DONE
        if request.decided:
            await self._remember(request)
            return DONE
        asked = look(request)
        machine = await self._machine(machine_of(asked))
        asking = token_id(request)
        kept = await self.tokens.read(asking) if asking else None
        case = Case(
            request,
            asked,
            None if machine is None else owner_of(machine),
            None if kept is None else kept.token,
            self.clock.now(),
        )
        denial = judge(case)
        if denial is not None or machine is None:
            await self._deny(request, denial, machine)
        else:
            await self._grant(request, machine, first=bool(asking))
        return DONE

    async def _machine(self, name: str) -> Machine | None:
        return await self.machines.read(name) if name else None

    async def _grant(self, request: SigningRequest, machine: Machine, *, first: bool) -> None:
        self.fence.check()
        bootstrap = machine.status.bootstrap
        if first and (bootstrap is None or bootstrap.request_id != request.metadata.uid):
            await self.machines.write(machine, self._reservation(request, machine))
        why = "first certificate of the agent" if first else "next certificate of the agent"
        await self._decide(request, APPROVED, "AgentRequest", why)
        self.metrics.approved()
        await self._tell(machine, request, "Normal", "CertificateApproved", why, "Granted")

    def _reservation(self, request: SigningRequest, machine: Machine) -> dict[str, Any]:
        """Until it is signed the certificate counts as living as long as it may."""
        life = timedelta(seconds=request.spec.expiration_seconds or LONGEST.total_seconds())
        reserved = {
            "requestID": request.metadata.uid,
            "certificateExpiresAt": format_time(self.clock.now() + life),
            "reissued": machine.metadata.annotations.get(REISSUE, "")[:64],
        }
        return {"bootstrap": reserved}

    async def _deny(
        self, request: SigningRequest, denial: Denial | None, machine: Machine | None
    ) -> None:
        assert denial is not None  # only a Machine that is there passes the checks
        self.fence.check()
        await self._decide(request, DENIED, denial.reason, denial.message)
        self.metrics.denied(denial.reason)
        if machine is None:
            extra = {"request": request.metadata.name, "who": request.spec.username}
            log.warning("certificate denied", extra={**extra, "why": denial.message})
            self._write(request, "", "Refused", denial.message)
            return
        why = f"{denial.reason}: {denial.message}"
        await self._tell(machine, request, "Warning", "CertificateDenied", why, "Refused")

    async def _decide(self, request: SigningRequest, type_: str, reason: str, message: str) -> None:
        """Over the version that was judged: whatever somebody wrote since is read first."""
        condition = {"type": type_, "status": "True", "reason": reason, "message": message}
        body = {
            "metadata": {"resourceVersion": request.metadata.resource_version},
            "status": {"conditions": [condition]},
        }
        await self.kube.patch(path_of(request.metadata.name, "approval"), body)

    async def _remember(self, request: SigningRequest) -> None:
        """What became of a request that was approved, by us or by a person."""
        if request.condition(APPROVED) is None:
            return
        machine = await self._machine(machine_of(look(request)))
        if machine is None:
            return
        change = remembered(machine, request)
        if change:
            self.fence.check()
            await self.machines.write(machine, {"bootstrap": change})

    async def _tell(
        self,
        machine: Machine,
        request: SigningRequest,
        type_: str,
        reason: str,
        why: str,
        outcome: str,
    ) -> None:
        await self.recorder.emit(
            regarding(machine), type_, reason, f"{request.metadata.name}: {why}"
        )
        self._write(request, machine.metadata.name, outcome, why)

    def _write(self, request: SigningRequest, machine: str, outcome: str, why: str) -> None:
        self.audit.write(
            Line(
                at=self.clock.now(),
                by=PART,
                who=request.spec.username,
                what="Certificate",
                outcome=outcome,
                why=why,
                node=machine,
                request_id=request.metadata.name,
            )
        )


def owner_of(machine: Machine) -> Owner:
    """A Machine as the checks see it."""
    bootstrap, meta = machine.status.bootstrap, machine.metadata
    return Owner(
        name=meta.name,
        uid=meta.uid,
        deleted=meta.deletion_timestamp is not None,
        token_id="" if bootstrap is None else bootstrap.token_id,
        expires_at=None if bootstrap is None else bootstrap.certificate_expires_at,
        request_id="" if bootstrap is None else bootstrap.request_id,
        reissue=reissue_wanted(machine),
    )


def reissue_wanted(machine: Machine) -> bool:
    """Whether a person asked for a first certificate once more, and got none yet."""
    wanted = machine.metadata.annotations.get(REISSUE, "")[:64]
    bootstrap = machine.status.bootstrap
    return bool(wanted) and wanted != ("" if bootstrap is None else bootstrap.reissued)


def remembered(machine: Machine, request: SigningRequest) -> dict[str, Any]:
    """What an approved request changes in `status.bootstrap`; nothing for one that is known.

    The request that was reserved for says exactly until when, or that there will be none; of
    others, which renew, the latest end counts. The request of a Machine before this one of the same
    name is none of its.
    """
    bootstrap = machine.status.bootstrap
    if bootstrap is None or _older(request, machine):
        return {}
    reserved = bootstrap.request_id == request.metadata.uid
    if request.condition(FAILED) is not None:
        return {"requestID": "", "certificateExpiresAt": None} if reserved else {}
    ends = end_of(request)
    if ends is None:
        return {}
    if reserved:
        return {"requestID": "", "certificateExpiresAt": format_time(ends)}
    known = bootstrap.certificate_expires_at
    later = known is None or ends > known
    return {"certificateExpiresAt": format_time(ends)} if later else {}


def end_of(request: SigningRequest) -> datetime | None:
    """When its certificate ends; None while there is none."""
    try:
        return ends_at(request.status.certificate)
    except Unreadable:
        return None


def _older(request: SigningRequest, machine: Machine) -> bool:
    asked, made = request.metadata.creation_timestamp, machine.metadata.creation_timestamp
    return asked is not None and made is not None and asked < made.replace(microsecond=0)
