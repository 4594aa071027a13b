"""Replaces a machine through the provider: it is returned to its instance group, which creates
another.
"""

from dataclasses import replace

from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.providers.errors import NoSuchMachine, ProviderError
from kubenode.providers.port import PowerState, Provider, ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.kube.objects import Node
from remedy.job.model import JobActResult
from remedy.job.steps.replace import ReplaceAct
from remedy.power.access import NOBODY, await_outcome, outcome_of, sentence
from remedy.power.methods import (
    BootOf,
    NodeCache,
    ReplacementRequest,
    ReplacementTarget,
    is_taken,
    newest_of,
)
from remedy.power.observation import ReplacementObservation, RequestOutcome

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
            (member.metadata.creation_timestamp, member.metadata.uid)
            for member in self._nodes.cache.values()
            if member.metadata.creation_timestamp is not None and group_of(member) == group
        ]
        return ReplacementTarget(machine.provider_id, group, newest_of(made))

    async def ask(self, request: ReplacementRequest) -> JobActResult:
        machine, provider = self._of(request)
        if provider is None:
            why = NOBODY.format(id=request.target)
            return JobActResult(ReplaceAct.REPLACE, outcome=RequestOutcome.REFUSED, error=why)
        return await await_outcome(ReplaceAct.REPLACE, provider.replace(machine, request.request))

    async def far(self, request: ReplacementRequest) -> ReplacementObservation:
        machine, provider = self._of(request)
        ready = self._new(request)
        new = next(iter(ready), "")
        observation = ReplacementObservation(
            self.name, request.target, request.group, new=new, candidates=ready
        )
        if provider is None:
            why = NOBODY.format(id=request.target)
            return replace(observation, outcome=RequestOutcome.REFUSED, why=why)
        if provider.can.renews:
            renewed = self._renewed(request)
            return replace(
                observation, renewed=renewed, why="its Node has not booted anew, or is not Ready"
            )
        try:
            power = await provider.power(machine)
        except NoSuchMachine:
            return replace(observation, gone=True, why="the new node is not Ready")
        except ProviderError as error:
            return replace(observation, outcome=outcome_of(error)[0], why=sentence(error))
        gone = power.state is PowerState.GONE
        why = "the new node is not Ready" if gone else f"the old machine is {power.state} still"
        return replace(observation, gone=gone, why=why)

    def _of(self, request: ReplacementRequest) -> tuple[ProviderMachine, Provider | None]:
        node = self._nodes.get(request.node)
        old = node is not None and node.metadata.uid == request.node_uid
        machine = ProviderMachine(
            request.target,
            request.node,
            node.metadata.annotations if node is not None and old else {},
        )
        return machine, self._providers.of(machine)

    def _renewed(self, request: ReplacementRequest) -> bool:
        """Report whether the Node has booted since, or another Node has its name, and
        it is Ready.
        """
        node = self._nodes.get(request.node)
        if node is None or not node.is_ready:
            return False
        boot_id = self._boot_of(node, request.agent)
        return node.metadata.uid != request.node_uid or len({"", request.boot_id, boot_id}) == 3

    def _new(self, request: ReplacementRequest) -> tuple[str, ...]:
        """Return Ready Nodes of the group created since, or another one with the old name."""
        replacements = []
        for name, node in self._nodes.cache.items():
            made = node.metadata.creation_timestamp
            if node.metadata.uid == request.node_uid or made is None or not node.is_ready:
                continue
            mine = name == request.node or group_of(node) == request.group
            if mine and request.is_new(made, node.metadata.uid) and not is_taken(node, request):
                replacements.append(name)
        return tuple(replacements)


def group_of(node: Node) -> str:
    labels = node.metadata.labels
    label = next((name for name in GROUPS if labels.get(name)), None)
    if label is not None:
        return f"{label}={labels[label]}"
    return f"{SCHEME}={node.spec.provider_id.partition(':')[0]}"
