"""Owner reference to a Node: the API server deletes an agent's objects with the Node."""

from kubenode.runtime.kube.objects import Node


def owner_reference(node: Node) -> dict[str, str]:
    """Return an entry for `metadata.ownerReferences` that does not delay the deletion
    of the Node.
    """
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node.metadata.name,
        "uid": node.metadata.uid,
    }
