"""Names of users, groups, tokens, annotations and namespaces of Machines."""

from kubenode.api.v1alpha1.machineset import LEAVING as LEAVING

AGENT_USER = "kubenode:agent:"
"""Prefix of the Machine's name in the agent's user name, which is the CN of its certificate."""
AGENT_GROUP = "kubenode:agents"
"""Group of all agents, which is the O of their certificates."""
NODE_USER, NODE_GROUP = "system:node:", "system:nodes"
"""Prefix of the node's name in a kubelet's user name, and the group of all kubelets."""
TOKEN_USER = "system:bootstrap:"
"""Prefix of a bootstrap token's ID in the user name that the API server gives its bearer."""
TOKEN_GROUP = "system:bootstrappers:kubenode"
"""Group of our bootstrap tokens and of no others."""
TOKEN_NAMESPACE = "kube-system"
TOKEN_TYPE = "bootstrap.kubernetes.io/token"
MACHINE, MACHINE_UID = "kubenode.io/machine", "kubenode.io/machine-uid"
"""Annotations of a token's Secret that name its Machine. MACHINE is also an annotation of a Node.
"""
DELETE_FIRST = "kubenode.io/delete-first"
"""Annotation or label of a Machine that its set removes before others."""
HANDS_OFF = "kubenode.io/hands-off"
"""Annotation or label of a Machine that its set neither replaces nor removes."""
PRESERVED = "kubenode.io/preserved"
"""Annotation of a failed Machine: the time until which it is kept for inspection, besides the set.
"""
NODE_CLASS, NODE_SET = "kubenode.io/node-class", "kubenode.io/node-set"
"""Labels of a Node and its Machine: their NodeClass, and their NodeSet if they belong to one."""
LEASES = "kubenode-agents"
"""Namespace of the agents' Leases."""
COMPONENTS = "kubenode-components"
"""Namespace of the objects to which components and inspections refer."""


def secret_name(token_id: str) -> str:
    """Return the name under which the API server looks up a bootstrap token."""
    return f"bootstrap-token-{token_id}"


def agent_user(machine: str) -> str:
    return f"{AGENT_USER}{machine}"
