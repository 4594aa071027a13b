"""The Events that are evidence about Nodes, from several watches, as one source of changes."""

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.kube.node_events import ABOUT_NODES, ABOUT_PODS, ABOUT_VOLUMES
from kubenode.runtime.kube.objects import Event, structs
from kubenode.runtime.kube.store import Handler
from remedy.remedier.attach_events import AttachEvents


class NodeEventSources:
    """Informers of Events about Nodes, about their pods, and about volumes of their pods.

    attach: the Events about volumes with the Node of their pod; its controller is a part to run
    """

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        informer: MakeInformer = Informer,
        about_nodes: str = ABOUT_NODES,
    ) -> None:
        """`about_nodes`: field selector of the Events about Nodes, such as those of one Node."""

        def select(selector: str, name: str) -> Informer[Event]:
            decode = structs(Event)
            return informer(
                kube, paths.events(), decode, field_selector=selector, name=name, clock=clock
            )

        self.nodes = select(about_nodes, "node events")
        self.pods = select(ABOUT_PODS, "pod events")
        self.volumes = select(ABOUT_VOLUMES, "volume events")
        self.attach = AttachEvents(kube, self.volumes, clock)

    @property
    def informers(self) -> tuple[Informer[Event], ...]:
        return self.nodes, self.pods, self.volumes

    def fresh(self) -> bool:
        """Report whether all caches are current."""
        return all(informer.fresh() for informer in self.informers)

    def add_handler(self, handler: Handler[Event]) -> None:
        """Call `handler` for each change of an Event whose Node is known."""
        self.nodes.add_handler(handler)
        self.pods.add_handler(handler)
        self.attach.add_handler(handler)
