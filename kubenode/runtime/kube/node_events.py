"""Which Events tell of a Node: those about the Node, and the kubelet's warnings about its pods.

Warnings about a pod's own program are not watched: they are the most frequent Events of a cluster,
and no fault of a Node.
"""

from kubenode.runtime.kube.objects import Event

KUBELET = "kubelet"
ABOUT_NODES = "involvedObject.kind=Node"
ABOUT_PODS = (
    f"involvedObject.kind=Pod,source={KUBELET},type=Warning,reason!=BackOff,reason!=Unhealthy"
)


def node_of(event: Event) -> str:
    """Name of the Node that the Event tells of, "" for none.

    A kubelet writes its own name into `source.host` of Events about its pods.
    """
    about = event.involved_object
    if about.kind == "Node":
        return about.name
    return event.source.host if is_about_pod(event) else ""


def is_about_pod(event: Event) -> bool:
    return event.involved_object.kind == "Pod" and event.source.component == KUBELET
