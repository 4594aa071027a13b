"""Replaces a machine through Karpenter, by deleting the NodeClaim of the Node.

Karpenter drains the rest, ends the instance and deletes the Node; it creates another machine only
if pods need one. So the replacement is a younger NodeClaim of the same NodePool with a Ready Node,
or none at all. Sources: karpenter.sh, concepts/disruption and concepts/nodeclaims.
"""

from typing import Any

from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.runtime.kube.objects import Node
from remedy.job.model import JobActResult
from remedy.power.methods import (
    ObjectReplacement,
    ReplacementRequest,
    ReplacementTarget,
    created,
    newest_of,
    taken,
    young,
)
from remedy.power.observation import ReplacementObservation

POOL = "karpenter.sh/nodepool"


class Karpenter(ObjectReplacement):
    name = ReplacePath.KARPENTER
    group, plural = "karpenter.sh", "nodeclaims"

    async def find(self, node: Node) -> ReplacementTarget | str:
        owners = node.metadata.owner_references
        owner = next((o for o in owners if o.kind == "NodeClaim"), None)
        if owner is None:
            return "no NodeClaim owns the Node"
        path = await self.path(owner.name)
        claim = None if path is None else await self.read(path)
        if claim is None or claim["metadata"]["uid"] != owner.uid:
            return f"NodeClaim {owner.name} is not in this cluster"
        if (claim.get("status") or {}).get("nodeName") != node.metadata.name:
            return f"NodeClaim {owner.name} says that it is another node's"
        made = [created(member) for member in await self.all() if _pool(member) == _pool(claim)]
        return ReplacementTarget(
            f"{owner.name}/{owner.uid}", f"NodePool {_pool(claim)}", newest_of(made)
        )

    async def ask(self, request: ReplacementRequest) -> JobActResult:
        name, uid = request.target.split("/")
        path = await self.path(name)
        return taken() if path is None else await self.delete(path, uid)

    async def far(self, request: ReplacementRequest) -> ReplacementObservation:
        name, uid = request.target.split("/")
        gone = not await self.is_there(name, uid)
        others = [c for c in await self.recent() if c["metadata"]["uid"] != uid] if gone else []
        mine = [c for c in others if f"NodePool {_pool(c)}" == request.group and young(c, request)]
        new = [c for c in mine if not self.is_taken(_node_of(c), request)]
        ready = tuple(n for n in map(_node_of, new) if n and self.ready(n))
        why = "the new node is not Ready" if gone else f"NodeClaim {name} is not gone yet"
        return ReplacementObservation(
            self.name,
            request.target,
            request.group,
            gone=gone,
            new=next(iter(ready), ""),
            candidates=ready,
            enough=gone and not new,
            why=why,
        )


def _node_of(claim: dict[str, Any]) -> str:
    return str((claim.get("status") or {}).get("nodeName") or "")


def _pool(claim: dict[str, Any]) -> str:
    return str((claim["metadata"].get("labels") or {}).get(POOL) or "")
