"""Policies as Kube Defender applies them: which acts they cover, and what of them is not
enforceable.

A policy that is invalid, or has a limit that cannot be enforced, must not count as having no limit.
So each problem refuses what the policy covers (PolicyInvalid), and shows in its condition
NotEnforced.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from pydantic import ValidationError

from kubenode.api.meta import NodeSelection
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import DefenderPolicy, Operation, default_policy
from kubenode.api.v1alpha1.defenderpolicy import (
    DefenderPolicySpec,
    DefenderPolicyStatus,
    LimitScope,
)
from kubenode.runtime.kube.objects import KubeObjectMeta


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """One policy.

    spec: None if the object is unreadable.
    problem: why the policy cannot be enforced, "" if all of its explicit limits are.
    nodes: of an unreadable policy, the nodes that it selects. None: every node.
    """

    metadata: KubeObjectMeta
    spec: DefenderPolicySpec | None
    status: DefenderPolicyStatus
    problem: str = ""
    nodes: NodeSelection | None = None

    @property
    def name(self) -> str:
        return self.metadata.name

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Return whether the policy covers nodes with these labels.

        An unreadable policy without a readable selector covers every node.
        """
        nodes = self.spec.nodes if self.spec is not None else self.nodes
        return nodes is None or nodes.matches(labels)

    def rules(self, operation: Operation) -> bool:
        """Return whether the policy rules this operation. An unreadable policy rules each."""
        return self.spec is None or operation in self.spec.operations

    def problem_for(self, operation: Operation) -> str:
        """Return why acts of this operation must be refused, "" if nothing is wrong."""
        if self.problem or self.spec is None:
            return self.problem or "cannot be read"
        return ""

    @property
    def problems(self) -> list[str]:
        """Everything that refuses acts of some operation, each once."""
        return list(dict.fromkeys(p for o in Operation if (p := self.problem_for(o))))


class _PolicyHead(msgspec.Struct):
    metadata: KubeObjectMeta


_head = msgspec.json.Decoder(_PolicyHead).decode


def read_policy(raw: bytes, *, fleet: bool = False) -> LoadedPolicy:
    """Read a DefenderPolicy from the API server. One that does not fit is kept with its problem.

    fleet: whether limits can be shared with other clusters. Raises ValueError only if not even its
        name is readable.
    """
    metadata = _head(raw).metadata
    try:
        policy = DefenderPolicy.from_server(raw)
    except ValidationError as error:
        text = "; ".join(problems(error, DefenderPolicy))
        return LoadedPolicy(metadata, None, DefenderPolicyStatus(), text, _nodes_in(raw))
    return LoadedPolicy(
        metadata, policy.spec, policy.status, "" if fleet else _unsupported(policy.spec)
    )


def _nodes_in(raw: bytes) -> NodeSelection | None:
    """Return the nodes that the policy selects, None if that does not fit."""
    spec = msgspec.json.decode(raw).get("spec")
    if not isinstance(spec, dict):
        return None
    try:
        return NodeSelection.model_validate(spec.get("nodes"))
    except ValidationError:
        return None


def _unsupported(spec: DefenderPolicySpec) -> str:
    for index, limit in enumerate(spec.limits):
        if limit.scope is LimitScope.FLEET:
            return (
                f"spec.limits[{index}]: scope Fleet needs a Redis that the clusters share: start"
                " Kube Defender with --redis-url, or remove it"
            )
    return ""


BUILT_IN_NAME = "built-in default"


def built_in(policy: DefenderPolicy) -> LoadedPolicy:
    """Return the policy under a name that no object can have, so that nothing is counted twice."""
    meta = KubeObjectMeta(name=BUILT_IN_NAME)
    return LoadedPolicy(meta, policy.spec, policy.status, _unsupported(policy.spec))


BUILT_IN = built_in(default_policy())
"""Policy for nodes and operations that no other policy covers, so that there is always a limit."""


def covering(
    policies: Iterable[LoadedPolicy],
    labels: dict[str, str],
    operation: Operation,
    fallback: LoadedPolicy,
) -> Sequence[LoadedPolicy]:
    """Return the policies that rule the act, by name; only `fallback` if there is none."""
    matches = [p for p in policies if p.covers(labels) and p.rules(operation)]
    return sorted(matches, key=lambda policy: policy.name) or [fallback]
