"""A Node as owner of what is made for its agent: the API server removes it with the Node."""

from kubenode.runtime.kube.objects import Node


def owner_reference(node: Node) -> dict[str, str]:
    """For `metadata.ownerReferences`. It does not hold up the deletion of the Node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node.metadata.name,
        "uid": node.metadata.uid,
    }
