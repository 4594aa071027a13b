"""Machines as Host Doctor reads them: the Node of an address or a providerID."""

import msgspec

from kubenode.runtime.kube.wire import HeadMeta


class MachineHostSpec(msgspec.Struct, rename="camel", gc=False):
    """Fields of Machine.spec; agents and kubelets cannot write them."""

    node_name: str = ""
    addresses: list[str] = []
    provider_id: str = msgspec.field(default="", name="providerID")


class MachineView(msgspec.Struct, gc=False):
    """A Machine without its components, permits and status: 10,000 of them stay in memory."""

    metadata: HeadMeta
    spec: MachineHostSpec = msgspec.field(default_factory=MachineHostSpec)

    @property
    def node_name(self) -> str:
        return self.spec.node_name or self.metadata.name
