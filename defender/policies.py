"""The policies as Kube Defender uses them: which cover an act, and what of them it cannot keep.

A policy that cannot be understood, or that asks for a limit which cannot be kept, must not pass as
no limit. So each problem here refuses what the policy covers (PolicyInvalid), and is told in the
policy's status condition NotEnforced.
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
from kubenode.runtime.kube.objects import ObjectMeta


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """One policy. `spec` is None when the object could not be read; then `problem` says why.

    `problem` "" means that every explicit limit of the policy is enforced. `nodes` is what can be
    read of an unreadable one: which nodes it is about; None: every node.
    """

    metadata: ObjectMeta
    spec: DefenderPolicySpec | None
    status: DefenderPolicyStatus
    problem: str = ""
    nodes: NodeSelection | None = None

    @property
    def name(self) -> str:
        return self.metadata.name

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Whether the node belongs to this policy; one of which not even that can be read covers
        every node.
        """
        nodes = self.spec.nodes if self.spec is not None else self.nodes
        return nodes is None or nodes.matches(labels)

    def rules(self, operation: Operation) -> bool:
        return self.spec is None or operation in self.spec.operations

    def problem_for(self, operation: Operation) -> str:
        """Why acts of `operation` must be refused, "" if nothing is wrong."""
        if self.problem or self.spec is None:
            return self.problem or "cannot be read"
        return ""

    @property
    def problems(self) -> list[str]:
        """Everything that refuses acts of some operation, each once."""
        return list(dict.fromkeys(p for o in Operation if (p := self.problem_for(o))))


class _PolicyHead(msgspec.Struct):
    metadata: ObjectMeta


_head = msgspec.json.Decoder(_PolicyHead).decode


def read_policy(raw: bytes, *, fleet: bool = False) -> LoadedPolicy:
    """A DefenderPolicy of the API server, also one that does not fit: it must not vanish.

    fleet: other clusters share a store with this one. Raises ValueError only if not even its name
    can be read.
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
    """Which nodes a policy is about, read by itself; None if it does not fit."""
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
    """`policy` under a name that no object can have, so that nothing is counted twice."""
    meta = ObjectMeta(name=BUILT_IN_NAME)
    return LoadedPolicy(meta, policy.spec, policy.status, _unsupported(policy.spec))


BUILT_IN = built_in(default_policy())
"""What holds for nodes and operations that no policy covers: never "no limit"."""


def covering(
    policies: Iterable[LoadedPolicy],
    labels: dict[str, str],
    operation: Operation,
    fallback: LoadedPolicy,
) -> Sequence[LoadedPolicy]:
    """The policies that rule an act, by name; `fallback` alone if there is none."""
    found = [p for p in policies if p.covers(labels) and p.rules(operation)]
    return sorted(found, key=lambda policy: policy.name) or [fallback]
