"""Names that agents, tokens and certificates of Machines go by."""

AGENT_USER = "kubenode:agent:"
"""Before the Machine's name: the user that its agent is, CN of its certificate."""
AGENT_GROUP = "kubenode:agents"
"""Group of every agent, O of its certificate."""
NODE_USER, NODE_GROUP = "system:node:", "system:nodes"
"""As Kubernetes names kubelets: before the node's name, and the group of all."""
TOKEN_USER = "system:bootstrap:"
"""Before a token's ID: the user that the API server makes of who shows it."""
TOKEN_GROUP = "system:bootstrappers:kubenode"
"""Group of our bootstrap tokens, and of nobody else's."""
TOKEN_NAMESPACE = "kube-system"
TOKEN_TYPE = "bootstrap.kubernetes.io/token"
MACHINE, MACHINE_UID = "kubenode.io/machine", "kubenode.io/machine-uid"
"""Annotations of a token's Secret: whose token it is."""
LEASES = "kubenode-agents"
"""Namespace of the agents' Leases."""


def secret_name(token_id: str) -> str:
    """The one name under which the API server looks for a bootstrap token."""
    return f"bootstrap-token-{token_id}"


def agent_user(machine: str) -> str:
    return f"{AGENT_USER}{machine}"
