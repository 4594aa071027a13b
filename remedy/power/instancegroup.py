"""Replaces a machine through the provider: it is returned to its instance group, which creates
another.
"""

from dataclasses import replace

from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.providers.errors import NoSuchMachine, ProviderError
from kubenode.providers.port import PowerState, Provider, ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.kube.objects import Node
from remedy.job.model import JobAct, JobActResult
from remedy.power.access import NOBODY, heard, outcome_of, sentence
from remedy.power.methods import (
    BootOf,
    NodeCache,
    ReplacementRequest,
    ReplacementTarget,
    is_taken,
    newest_of,
)
from remedy.power.observation import ReplaceSeen, RequestOutcome

GROUPS = (
    "kubenode.io/pool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "cloud.google.com/gke-nodepool",
    "alibabacloud.com/nodepool-id",
)
"""Labels of a Node that name its group; the first one that exists counts."""
SCHEME = "scheme"
"""Name of the group of nodes without such a label: nodes of the same provider."""


class InstanceGroup:
    name = ReplacePath.INSTANCE_GROUP

    def __init__(self, providers: Providers, nodes: NodeCache, boot_of: BootOf) -> None:
        self._providers, self._nodes, self._boot_of = providers, nodes, boot_of

    async def find(self, node: Node) -> ReplacementTarget | str:
        machine = ProviderMachine(
            node.spec.provider_id, node.metadata.name, node.metadata.annotations
        )
        provider = self._providers.of(machine)
        if provider is None:
            return NOBODY.format(id=machine.provider_id)
        if not provider.can.replace:
            return f"provider {provider.name} has no groups that replace a machine"
        group = group_of(node)
        made = [
            (one.metadata.creation_timestamp, one.metadata.uid)
            for one in self._nodes.cache.values()
            if one.metadata.creation_timestamp is not None and group_of(one) == group
        ]
        return ReplacementTarget(machine.provider_id, group, newest_of(made))

    async def ask(self, asked: ReplacementRequest) -> JobActResult:
        machine, provider = self._of(asked)
        if provider is None:
            why = NOBODY.format(id=asked.target)
            return JobActResult(JobAct.REPLACE, outcome=RequestOutcome.REFUSED, error=why)
        return await heard(JobAct.REPLACE, provider.replace(machine, asked.request))

    async def far(self, asked: ReplacementRequest) -> ReplaceSeen:
        machine, provider = self._of(asked)
        ready = self._new(asked)
        new = next(iter(ready), "")
        seen = ReplaceSeen(self.name, asked.target, asked.group, new=new, candidates=ready)
        if provider is None:
            why = NOBODY.format(id=asked.target)
            return replace(seen, outcome=RequestOutcome.REFUSED, why=why)
        if provider.can.renews:
            renewed = self._renewed(asked)
            return replace(
                seen, renewed=renewed, why="its Node has not booted anew, or is not Ready"
            )
        try:
            power = await provider.power(machine)
        except NoSuchMachine:
            return replace(seen, gone=True, why="the new node is not Ready")
        except ProviderError as error:
            return replace(seen, outcome=outcome_of(error)[0], why=sentence(error))
        gone = power.state is PowerState.GONE
        why = "the new node is not Ready" if gone else f"the old machine is {power.state} still"
        return replace(seen, gone=gone, why=why)

    def _of(self, asked: ReplacementRequest) -> tuple[ProviderMachine, Provider | None]:
        node = self._nodes.get(asked.node)
        old = node is not None and node.metadata.uid == asked.node_uid
        machine = ProviderMachine(
            asked.target, asked.node, node.metadata.annotations if node is not None and old else {}
        )
        return machine, self._providers.of(machine)

    def _renewed(self, asked: ReplacementRequest) -> bool:
        """Report whether the Node has booted since, or another Node has its name, and
        it is Ready.
        """
        node = self._nodes.get(asked.node)
        if node is None or not node.is_ready:
            return False
        boot_id = self._boot_of(node, asked.agent)
        return node.metadata.uid != asked.node_uid or len({"", asked.boot_id, boot_id}) == 3

    def _new(self, asked: ReplacementRequest) -> tuple[str, ...]:
        """Return Ready Nodes of the group created since, or another one with the old name."""
        found = []
        for name, node in self._nodes.cache.items():
            made = node.metadata.creation_timestamp
            if node.metadata.uid == asked.node_uid or made is None or not node.is_ready:
                continue
            mine = name == asked.node or group_of(node) == asked.group
            if mine and asked.is_new(made, node.metadata.uid) and not is_taken(node, asked):
                found.append(name)
        return tuple(found)


def group_of(node: Node) -> str:
    labels = node.metadata.labels
    label = next((name for name in GROUPS if labels.get(name)), None)
    if label is not None:
        return f"{label}={labels[label]}"
    return f"{SCHEME}={node.spec.provider_id.partition(':')[0]}"
