"""Where the Services of Kube Defender lead while one replica of several answers: to the holder of
the lease.

Readiness cannot say it: a replica that stands by is well, and one that was never ready would hold
up every rollout and every drain. So the Services have no selector, and the leader writes its own
address into their EndpointSlices, which the chart makes.
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
"""Seconds: an upgrade of the chart empties the slices."""


class EndpointPublisher:
    """A Part of the leader. `address` is our pod's."""

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
        """Writing what stands there already changes nothing. Raises KubeError, LeaseLost."""
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
