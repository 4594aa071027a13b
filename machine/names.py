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
LEAVING = "kubenode.io/leaving"
"""Annotation of a Machine that its set has chosen to give up: ScaleIn or Replace. Its disruption is
held in the Machine's own name, so that its deletion goes on under the same permit and cordon."""
DELETE_FIRST = "kubenode.io/delete-first"
"""Annotation: of a set that shrinks this Machine goes before others."""
HANDS_OFF = "kubenode.io/hands-off"
"""Annotation or label of a Machine that its set neither replaces nor gives up."""
PRESERVED = "kubenode.io/preserved"
"""Annotation of a Machine that has failed: kept for people until this instant, beyond the set."""
LEASES = "kubenode-agents"
"""Namespace of the agents' Leases."""
COMPONENTS = "kubenode-components"
"""Namespace of what components and inspections refer to."""


def secret_name(token_id: str) -> str:
    """The one name under which the API server looks for a bootstrap token."""
    return f"bootstrap-token-{token_id}"


def agent_user(machine: str) -> str:
    return f"{AGENT_USER}{machine}"
