"""Direct the Services of Kube Defender to the leader, if one replica of several answers.

Readiness cannot do that: a standby replica is healthy, and one that is never ready would block
rollouts and drains. So the Services have no selector, and the leader writes its own address into
their EndpointSlices, which the chart creates.
"""

import logging
from ipaddress import IPv4Address, IPv6Address

from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound

log = logging.getLogger(__name__)

SERVICES = ("kubenode-defender", "kubenode-dashboard")
PERIOD = 10.0
"""Seconds between writes. An upgrade of the chart empties the slices."""


class EndpointPublisher:
    """A part of the leader. `address` is that of its pod."""

    name = "endpoints"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        fence: Fence,
        address: IPv4Address | IPv6Address,
        namespace: str,
    ) -> None:
        self._kube, self._clock, self._fence = kube, clock, fence
        self._address, self._namespace = address, namespace
        self._trouble = ""

    async def run(self) -> None:
        while True:
            try:
                for service in SERVICES:
                    await self.lead(service)
                self._trouble = ""
            except KubeError as error:
                if self._trouble != str(error):
                    self._trouble = str(error)
                    log.warning("a Service does not lead here", extra={"why": self._trouble})
            await self._clock.sleep(PERIOD)

    async def lead(self, service: str) -> None:
        """Write the address into the slice of the Service. Raises KubeError and LeaseLost."""
        self._fence.check()
        path = paths.resource(
            "/apis/discovery.k8s.io/v1",
            "endpointslices",
            namespace=self._namespace,
            name=f"{service}-ipv{self._address.version}",
        )
        ours = {"addresses": [str(self._address)], "conditions": {"ready": True}}
        try:
            await self._kube.patch(path, {"endpoints": [ours]})
        except NotFound:
            return  # this Service has a selector, or is not installed
