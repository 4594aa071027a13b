"""A control plane with kwok and the chart's rights: our programs run beside another project's."""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support import waiting
from support.chart_plane import ChartPrograms, ready, secret
from support.control_plane import ControlPlane
from support.helm import NAMESPACE, Helm, Object, ident, is_hook, pod_specs
from support.kwok_machines import KWOK_ANNOTATION
from support.remedy_cluster import install_crds

DEFENDER = f"StatefulSet/{NAMESPACE}/kubenode-defender"
REMEDY = f"Deployment/{NAMESPACE}/kubenode-remedy"
MACHINE = f"Deployment/{NAMESPACE}/kubenode-machine"
VALUES = {
    "providersSecret": "kubenode-providers",
    "remedy": {"webhook": {"enabled": False}},
    "machine": {"webhook": {"enabled": False}},
    "defender": {"guard": {"enabled": False}},
}
"""Without webhooks: the API server reaches no Service here."""
PATIENCE = 120.0
POLICY = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "DefenderPolicy",
    "metadata": {"name": "default"},
    "spec": {
        "nodes": {"all": True},
        "limits": [{"scope": "Cluster", "maxConcurrent": "100%"}],
        "smallPool": {"nodes": 0},
        "breaker": {"trip": {"minNodes": 1000, "newFaultsPer10m": "100%"}},
    },
}


@dataclass
class NeighbourSite:
    """providers: file of the providers, in the folder of support.kwok_machines' machines"""

    plane: ControlPlane
    programs: ChartPrograms
    providers: Path

    def apply(self, *objects: Object) -> None:
        apply(self.plane, objects)

    @contextmanager
    def running(self, pod: str) -> Iterator[str]:
        """A program of the chart that is ready, until the end of the block."""
        with self.programs.running(pod, {"--providers-file": str(self.providers)}) as url:
            waiting.until(lambda: ready(url), f"{pod} is ready", PATIENCE)
            yield url


def apply(plane: ControlPlane, objects: Sequence[Object]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))


@contextmanager
def started_site(helm: Helm, folder: Path, providers: Path) -> Iterator[NeighbourSite]:
    """Kube Defender and the Remedy operator run; it acts through `providers`, in whose folder the
    rack is.
    """
    annotation = "=".join(*KWOK_ANNOTATION.items())
    with ControlPlane(kwok=True, kwok_annotation=annotation) as plane:
        objects = helm.rendered(VALUES)
        pods = {name for name, _ in pod_specs(objects)}
        rights = [found for found in objects if not is_hook(found) and ident(found) not in pods]
        install_crds(plane)
        namespaces = [found for found in rights if found["kind"] == "Namespace"]
        ours = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        apply(plane, [ours, *namespaces])
        apply(plane, [*rights, POLICY])
        site = NeighbourSite(plane, ChartPrograms(plane, objects, folder), providers)
        with ExitStack() as programs:
            defender = programs.enter_context(site.programs.running(DEFENDER))
            own = "kubenode-defender"
            waiting.until(lambda: "ca.crt" in secret(plane, own), "a certificate", PATIENCE)
            site.programs.authority.write_bytes(base64.b64decode(secret(plane, own)["ca.crt"]))
            programs.enter_context(site.running(REMEDY))
            waiting.until(lambda: ready(defender), "Kube Defender is ready", PATIENCE)
            yield site
