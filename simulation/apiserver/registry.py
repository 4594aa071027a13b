"""The served resources and their behavior.

The built-in kinds are those that KubeNode, its demo and kubectl use. RBAC and admission objects are
stored without effect: what needs them is tested on a real server. CRDs add entries.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from simulation.apiserver.errors import no_such_path
from simulation.apiserver.schema import Schema

Path = tuple[str, ...]
"""The path of a field: ("spec", "nodeName")."""

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column of a CRD.

    type: "date" prints an age.
    priority: above 0 only for -o wide.
    """

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Paths of a kind's replicas.

    selector: () for none.
    """

    spec: Path
    status: Path
    selector: Path = ()


SCALED = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))


@dataclass(eq=False)
class ServedResource:
    """A kind as served under one group and version.

    generation: spec changes count in metadata.generation.
    blind_put: PUT without resourceVersion overwrites (AllowUnconditionalUpdate of its strategy).
    put_creates: PUT to a missing name creates (AllowCreateOnUpdate).
    fields: fields that field selectors may name, besides metadata.name and metadata.namespace.
    crd: name of the CRD that defines it, "" for built-in kinds.
    scale: paths of its replicas, None for no scale subresource.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False
    short: tuple[str, ...] = ()
    status: bool = False
    generation: bool = False
    blind_put: bool = True
    put_creates: bool = False
    fields: Mapping[str, Path] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    schema: Schema | None = None
    columns: tuple[Column, ...] = ()
    crd: str = ""
    scale: ScalePaths | None = None
    singular: str = ""
    list_kind: str = ""

    def __post_init__(self) -> None:
        self.gv = f"{self.group}/{self.version}" if self.group else self.version
        self.qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"


def _paths(*dotted: str) -> dict[str, Path]:
    return {name: tuple(name.split(".")) for name in dotted}


POD_FIELDS = _paths(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
EVENT_FIELDS = {
    **_paths(
        *(
            f"involvedObject.{name}"
            for name in (
                "kind",
                "namespace",
                "name",
                "uid",
                "apiVersion",
                "resourceVersion",
                "fieldPath",
            )
        ),
        "reason",
        "type",
    ),
    "reportingComponent": ("reportingComponent",),
    "source": ("source", "component"),
}


def _core() -> Iterator[ServedResource]:
    def core(plural: str, kind: str, **more: object) -> ServedResource:
        return ServedResource("", "v1", plural, kind, **more)  # type: ignore[arg-type]

    yield core("nodes", "Node", short=("no",), status=True, fields=_paths("spec.unschedulable"))
    yield core("namespaces", "Namespace", short=("ns",), status=True, fields=_paths("status.phase"))
    yield core(
        "pods",
        "Pod",
        namespaced=True,
        short=("po",),
        status=True,
        generation=True,
        fields=POD_FIELDS,
        categories=("all",),
        subresources=("binding", "eviction"),
    )
    yield core(
        "events", "Event", namespaced=True, short=("ev",), put_creates=True, fields=EVENT_FIELDS
    )
    yield core("configmaps", "ConfigMap", namespaced=True, short=("cm",))
    yield core("secrets", "Secret", namespaced=True, fields=_paths("type"))
    yield core("serviceaccounts", "ServiceAccount", namespaced=True, short=("sa",))
    yield core(
        "services",
        "Service",
        namespaced=True,
        short=("svc",),
        status=True,
        put_creates=True,
        categories=("all",),
    )


def _workloads() -> Iterator[ServedResource]:
    kinds = (
        ("apps", "daemonsets", "DaemonSet", "ds", ()),
        ("apps", "deployments", "Deployment", "deploy", ()),
        ("apps", "replicasets", "ReplicaSet", "rs", ("status.replicas",)),
        ("apps", "statefulsets", "StatefulSet", "sts", ()),
        ("batch", "jobs", "Job", "", ("status.successful",)),
    )
    for group, plural, kind, short, fields in kinds:
        yield ServedResource(
            group,
            "v1",
            plural,
            kind,
            namespaced=True,
            short=(short,) if short else (),
            status=True,
            generation=True,
            fields=_paths(*fields),
            categories=("all",),
            scale=SCALED if plural in ("deployments", "replicasets", "statefulsets") else None,
        )


def _machinery() -> Iterator[ServedResource]:
    yield ServedResource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        namespaced=True,
        short=("pdb",),
        status=True,
        generation=True,
        blind_put=False,
    )
    yield ServedResource(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        namespaced=True,
        blind_put=False,
        put_creates=True,
    )
    yield ServedResource("apps", "v1", "controllerrevisions", "ControllerRevision", namespaced=True)
    yield ServedResource(
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        status=True,
        blind_put=False,
    )
    yield ServedResource(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        short=("csr",),
        status=True,
        fields=_paths("spec.signerName"),
    )
    yield ServedResource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        short=("crd", "crds"),
        status=True,
        generation=True,
        blind_put=False,
        categories=("api-extensions",),
    )


def _without_effect() -> Iterator[ServedResource]:
    rbac = "rbac.authorization.k8s.io"
    for plural, kind, namespaced in (
        ("clusterroles", "ClusterRole", False),
        ("clusterrolebindings", "ClusterRoleBinding", False),
        ("roles", "Role", True),
        ("rolebindings", "RoleBinding", True),
    ):
        yield ServedResource(rbac, "v1", plural, kind, namespaced=namespaced, put_creates=True)
    for plural, kind in (
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    ):
        yield ServedResource(
            "admissionregistration.k8s.io",
            "v1",
            plural,
            kind,
            generation=True,
            blind_put=False,
            categories=("api-extensions",),
        )


class Registry:
    """The served resources, by (group, version, plural) and by qualified name."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._by_name: dict[str, ServedResource] = {}
        for source in (_core, _workloads, _machinery, _without_effect):
            for resource in source():
                self.add(resource)

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(self._by_path.values())

    def add(self, resource: ServedResource) -> None:
        """Serve `resource`, replacing an earlier definition of it."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_name[resource.qualified] = resource

    def remove(self, resource: ServedResource) -> None:
        del self._by_path[resource.group, resource.version, resource.plural]
        del self._by_name[resource.qualified]

    def get(self, group: str, version: str, plural: str) -> ServedResource | None:
        return self._by_path.get((group, version, plural))

    def named(self, qualified: str) -> ServedResource:
        """Return the resource "plural.group" ("pods" in the core group). Raises ApiError 404."""
        try:
            return self._by_name[qualified]
        except KeyError:
            raise no_such_path() from None

    def find(self, qualified: str) -> ServedResource | None:
        return self._by_name.get(qualified)

    def versions(self) -> dict[tuple[str, str], list[ServedResource]]:
        """Return (group, version) to its resources, in the order in which they were added."""
        by_version: dict[tuple[str, str], list[ServedResource]] = {}
        for resource in self:
            by_version.setdefault((resource.group, resource.version), []).append(resource)
        return by_version
