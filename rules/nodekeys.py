"""Keys of labels and annotations that steps of rules may change on Nodes. Pure.

A label can move pods, change load balancers or claim a Node for another controller, without any
permit. Only listed keys may be changed; keys of Kubernetes, of provisioners and of KubeNode never.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.noderemedier import NodeRemedierSpec
from kubenode.api.v1alpha1.steps import NodeKeyStep

PROTECTED_DOMAINS = (
    *("kubernetes.io", "k8s.io", "x-k8s.io", "k8s.aws"),
    *("karpenter.sh", "kubenode.io"),
)
"""Each with its subdomains, such as `node-restriction.kubernetes.io`."""
SUSPECT = "kubenode.io/suspect"
ALLOWED = (SUSPECT, f"{SUSPECT}-*")
"""Default list, and the only keys of kubenode.io that rules may set."""


def is_protected(key: str) -> bool:
    """Return whether no setting can allow the key."""
    domain = key.rpartition("/")[0].lower()
    if not any(
        domain == protected or domain.endswith(f".{protected}") for protected in PROTECTED_DOMAINS
    ):
        return False
    return not _is_listed(key, ALLOWED)


def _is_listed(key: str, entries: Sequence[str]) -> bool:
    return any(
        key.startswith(entry[:-1]) if entry.endswith("*") else key == entry for entry in entries
    )


@dataclass(frozen=True, slots=True)
class NodeKeys:
    """The operator's lists. An entry is a key, or a prefix of keys followed by `*`.

    allowed: keys that any rung may set
    disruptive: keys that a rung of class Pods or Node may set, because it has a permit
    """

    allowed: Sequence[str] = ALLOWED
    disruptive: Sequence[str] = ()

    def entry_faults(self) -> Iterator[str]:
        """Describe the entries that can never take effect."""
        for entry in (*self.allowed, *self.disruptive):
            if "*" in entry[:-1] or entry in ("", "*"):
                yield f"{entry!r}: write a key, or the beginning of keys with one * at its end"
            elif entry not in ALLOWED and is_protected(entry.removesuffix("*")):
                yield f"{entry!r}: {_PROTECTED}: list keys of your own domain"

    def refusal(self, key: str, disruption: Disruption) -> str:
        """Reason why a rung of class `disruption` may not set `key`; empty if it may."""
        if is_protected(key):
            return f"{key!r}: {_PROTECTED}: use a key such as {SUSPECT}-NAME"
        if _is_listed(key, self.allowed):
            return ""
        if not _is_listed(key, self.disruptive):
            return (
                f"{key!r} is not in node_keys of the remedy operator, which has"
                f" {', '.join(self.allowed)}: use one of these, or let an administrator add the key"
            )
        if disruption.weight < Disruption.PODS.weight:
            return (
                f"{key!r} is in disruptive_node_keys of the remedy operator, and the rung is of"
                f" class {disruption}: write `disruption: Pods` in the rung, so that it asks Kube"
                " Defender for a permit"
            )
        return ""


_PROTECTED = "the key belongs to Kubernetes, a provisioner or KubeNode, and no rule may set it"


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key that a rule sets on Nodes. path: its field in the rule."""

    path: str
    key: str
    disruption: Disruption


def list_key_uses(spec: NodeRemedierSpec) -> Iterator[KeyUse]:
    for number, rung in enumerate(spec.ladder or ()):
        for place, step in enumerate(rung.steps):
            body = step.body
            if isinstance(body, NodeKeyStep):
                path = f"spec.ladder[{number}].steps[{place}].{step.name}.key"
                yield KeyUse(path, body.key, rung.disruption_class)


def key_fault(spec: NodeRemedierSpec, keys: NodeKeys) -> str:
    """Return every key of the rule that may not be set, with path and remedy; "" if there is
    none.
    """
    refused = ((use.path, keys.refusal(use.key, use.disruption)) for use in list_key_uses(spec))
    return "; ".join(f"{path}: {why}" for path, why in refused if why)
