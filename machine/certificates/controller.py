"""Approve or deny the certificate requests of hosts, and record grants in the Machine.

A grant to a bootstrap token is first recorded in the Machine, with the resourceVersion of a live
read, and then approved. Of two requests by one token only one succeeds, even after a crash. After a
restart the record contains the request's UID, and the approval continues.
"""

import logging
from dataclasses import dataclass

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.audit import SILENT, Audit, AuditLine
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.recorder import EventRecorder
from machine.access import MachineAccess, regarding
from machine.bootstrap.tokens import Tokens
from machine.certificates.case import CertificateCase, Denial
from machine.certificates.checks import judge, limit_requests
from machine.certificates.kinds import AGENT, BY_SIGNER, KUBELET, CertificateKind
from machine.certificates.records import node_of, owner_of, remembered, reserved_for
from machine.certificates.requester import named, nodes_of, ours, parse_request, token_id
from machine.certificates.wire import APPROVED, DENIED, SigningRequest
from machine.certificates.wire import request as path_of
from machine.metrics import MachineMetrics

log = logging.getLogger(__name__)
decode_node = structs(Node)

PART = "machine"
"""Component name in the audit log."""
OF_NODE = "node"
"""Index of Machines by their node, and of open requests by the nodes that they name."""
OF_USER = "user"
"""Index of requests by the requesting user."""


def nodes_of_machine(machine: Machine) -> tuple[str, ...]:
    node = node_of(machine)
    return (node,) if node else ()


def nodes_of_open(request: SigningRequest) -> tuple[str, ...]:
    """Return the nodes that the request names, none if it is decided."""
    return () if request.decided else tuple(nodes_of(request))


@dataclass(frozen=True, slots=True)
class Approver:
    """Reconciler of certificate requests.

    kube: a client that may approve requests of our signers.
    requests: all requests of the cluster, with the indexes OF_NODE and OF_USER.
    known: Machines, with the index OF_NODE. Decisions use a Machine that is read live.
    """

    kube: Kube
    requests: Informer[SigningRequest]
    known: Informer[Machine]
    machines: MachineAccess
    tokens: Tokens
    clock: Clock
    fence: Fence
    recorder: EventRecorder
    metrics: MachineMetrics
    audit: Audit = SILENT

    async def reconcile(self, name: str) -> Result:
        request = self.requests.get(name)
        if request is None or not ours(request, self._spoken_of):
            return DONE
        kind = BY_SIGNER[request.spec.signer_name]
        if request.decided:
            await self._remember(request, kind)
            return DONE
        of_user = self.requests.by(OF_USER, request.spec.username)
        if (denial := limit_requests(request, of_user)) is not None:
            await self._deny(request, denial, None)
            return DONE
        requested = parse_request(request)
        machine, rivals = await self._machine(named(requested, kind), kind)
        asking = token_id(request)
        stored = await self.tokens.read(asking) if asking else None
        older = bool(asking) and machine is not None and await self._older_node(machine, kind)
        case = CertificateCase(
            request,
            requested,
            None if machine is None else owner_of(machine, kind, rivals, older_node=older),
            None if stored is None else stored.token,
            self.clock.now(),
        )
        denial = judge(case)
        if denial is not None or machine is None:
            await self._deny(request, denial, machine)
        else:
            await self._grant(request, machine, kind, first=bool(asking))
        return DONE

    def concerned(self, key: str, old: Machine | None, new: Machine | None) -> tuple[str, ...]:
        """Return the open requests of the nodes to which the Machine refers, before or after the
        change.
        """
        nodes = {node_of(machine) for machine in (old, new) if machine is not None} - {""}
        matches = (request for node in nodes for request in self.requests.by(OF_NODE, node))
        return tuple({request.metadata.name for request in matches})

    def _spoken_of(self, node: str) -> bool:
        return bool(self.known.by(OF_NODE, node))

    async def _machine(
        self, name: str, kind: CertificateKind
    ) -> tuple[Machine | None, tuple[str, ...]]:
        """Return the Machine of this name or node, read live, and the names of other Machines of
        the node.
        """
        if not name or kind is AGENT:
            return (await self.machines.read(name) if name else None), ()
        speak = self.known.by(OF_NODE, name)
        stay = [m for m in speak if m.metadata.deletion_timestamp is None] or speak
        mine, *rivals = sorted(m.metadata.name for m in stay) or [""]
        machine = await self.machines.read(mine) if mine else None
        if machine is None or node_of(machine) != name:
            return None, ()
        return machine, tuple(rivals)

    async def _older_node(self, machine: Machine, kind: CertificateKind) -> bool:
        """Return whether the Node that a kubelet asks for, read live, was created before the
        Machine.
        """
        if kind is not KUBELET:
            return False
        try:
            node = await self.kube.get(paths.node(node_of(machine)), decode_node)
        except NotFound:
            return False
        made, wanted = node.metadata.creation_timestamp, machine.metadata.creation_timestamp
        return made is None or wanted is None or made < wanted

    async def _grant(
        self, request: SigningRequest, machine: Machine, kind: CertificateKind, *, first: bool
    ) -> None:
        """Record and approve the request.

        first: whether a bootstrap token requests it.
        """
        self.fence.check()
        if first and (change := reserved_for(request, machine, kind, self.clock.now())):
            await self.machines.write(machine, change)
        why = f"{'first' if first else 'next'} certificate of {kind.whom}"
        await self._decide(request, APPROVED, "HostRequest", why)
        self.metrics.approved()
        await self._tell(machine, request, "Normal", "CertificateApproved", why, "Granted")

    async def _deny(
        self, request: SigningRequest, denial: Denial | None, machine: Machine | None
    ) -> None:
        """Deny the request. The denial is an Event of the Machine, or only a log line without
        one.
        """
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
        """Write the decision. Raises Conflict if the request has changed since it was read."""
        condition = {"type": type_, "status": "True", "reason": reason, "message": message}
        body = {
            "metadata": {"resourceVersion": request.metadata.resource_version},
            "status": {"conditions": [condition]},
        }
        await self.kube.patch(path_of(request.metadata.name, "approval"), body)

    async def _remember(self, request: SigningRequest, kind: CertificateKind) -> None:
        """Record the outcome of an approved request, whoever approved it."""
        if request.condition(APPROVED) is None:
            return
        machine, _ = await self._machine(named(parse_request(request), kind), kind)
        if machine is None:
            return
        change = remembered(machine, request, kind)
        if change:
            self.fence.check()
            await self.machines.write(machine, change)

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
            AuditLine(
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
