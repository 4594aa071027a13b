"""API paths of the resources that we use, in one place.

`namespace=None` in a list means all namespaces. Names are percent-encoded, so that no name of an
object can lead to another path.
"""

from urllib.parse import quote

GROUP = "kubenode.io"
VERSION = "v1alpha1"


def resource(
    base: str,
    plural: str,
    *,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Return the path of a resource. `base` is `/api/v1` or `/apis/GROUP/VERSION`."""
    parts = [base]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(plural)
    if name is not None:
        if not name:
            raise ValueError(f"an empty name would address the whole collection {plural}")
        parts.append(quote(name, safe=":"))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def nodes() -> str:
    return resource("/api/v1", "nodes")


def node(name: str, subresource: str | None = None) -> str:
    return resource("/api/v1", "nodes", name=name, subresource=subresource)


def namespaces() -> str:
    return resource("/api/v1", "namespaces")


def namespace(name: str) -> str:
    return resource("/api/v1", "namespaces", name=name)


def pods(namespace: str | None = None) -> str:
    return resource("/api/v1", "pods", namespace=namespace)


def pod(namespace: str, name: str, subresource: str | None = None) -> str:
    return resource("/api/v1", "pods", namespace=namespace, name=name, subresource=subresource)


def eviction(namespace: str, name: str) -> str:
    return pod(namespace, name, "eviction")


def events(namespace: str | None = None) -> str:
    return resource("/api/v1", "events", namespace=namespace)


def event(namespace: str, name: str) -> str:
    return resource("/api/v1", "events", namespace=namespace, name=name)


def leases(namespace: str | None = None) -> str:
    return resource("/apis/coordination.k8s.io/v1", "leases", namespace=namespace)


def lease(namespace: str, name: str) -> str:
    return resource("/apis/coordination.k8s.io/v1", "leases", namespace=namespace, name=name)


def pod_disruption_budgets(namespace: str | None = None) -> str:
    return resource("/apis/policy/v1", "poddisruptionbudgets", namespace=namespace)


def custom_resource_definitions() -> str:
    return resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions")


def custom_resource_definition(name: str) -> str:
    return resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", name=name)


def custom(
    plural: str,
    name: str | None = None,
    subresource: str | None = None,
    *,
    namespace: str | None = None,
) -> str:
    """Return the path of a resource of our own group, `kubenode.io/v1alpha1`."""
    base = f"/apis/{GROUP}/{VERSION}"
    return resource(base, plural, namespace=namespace, name=name, subresource=subresource)


def apps(plural: str, namespace: str, name: str) -> str:
    """Return the path of one object of `apps/v1`, such as a Deployment."""
    return resource("/apis/apps/v1", plural, namespace=namespace, name=name)


def horizontal_pod_autoscalers(namespace: str) -> str:
    return resource("/apis/autoscaling/v2", "horizontalpodautoscalers", namespace=namespace)


def persistent_volume_claim(namespace: str, name: str) -> str:
    return resource("/api/v1", "persistentvolumeclaims", namespace=namespace, name=name)


def persistent_volume(name: str) -> str:
    return resource("/api/v1", "persistentvolumes", name=name)
