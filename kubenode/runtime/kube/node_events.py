"""Selects the Events that are evidence about a Node.

They are Events about the Node, the kubelet's warnings about its pods, and volumes that the
attach-detach controller cannot attach for a pod of the Node.

Warnings about a pod's own program are not watched. They are the most frequent Events of a cluster,
and show no fault of a Node.
"""

from kubenode.runtime.kube.objects import Event

KUBELET = "kubelet"
ABOUT_NODES = "involvedObject.kind=Node"
ABOUT_PODS = (
    f"involvedObject.kind=Pod,source={KUBELET},type=Warning,reason!=BackOff,reason!=Unhealthy"
)
ATTACH_DETACH = "attachdetach-controller"
ABOUT_VOLUMES = (
    f"involvedObject.kind=Pod,source={ATTACH_DETACH},type=Warning,reason=FailedAttachVolume"
)


def node_of(event: Event) -> str:
    """Return the name of the Node that the Event is about, "" for none.

    A kubelet writes its own name into `source.host` of Events about its pods. For Events of the
    attach-detach controller remedy.remedier.attach_events fills it in.
    """
    about = event.involved_object
    if about.kind == "Node":
        return about.name
    return event.source.host if is_about_pod(event) else ""


def is_about_pod(event: Event) -> bool:
    return event.involved_object.kind == "Pod" and event.source.component in (
        KUBELET,
        ATTACH_DETACH,
    )
