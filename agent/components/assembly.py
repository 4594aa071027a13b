"""Builds the component engine with the watch of its own Machine and the status publisher.

A real agent runs its own watch. The demo runs hundreds of agents in one process, feeds them from
one shared informer and leaves the watch out.
"""

import asyncio
import random
from collections.abc import Callable, Mapping

from agent.assignment import RELIST_SPREAD
from agent.components.engine import ComponentEngine
from agent.components.health import Reach
from agent.components.library import Library
from agent.components.permits import LivePermits, MachineReader
from agent.components.ports import ComponentPorts
from agent.components.publisher import PLURAL, StatusPublisher, decode_machine
from agent.components.records import Records
from agent.host import Host
from agent.patience import AT_ONCE, Waits
from kubenode.runtime.clock import Clock
from kubenode.runtime.components.wire import WireMachine, WireMachineHost
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.process import Part
from kubenode.runtime.rate import Spread


class Components:
    """Components of one host.

    about: the host, as in `status.host`
    conflict: returns why a job holds the node under another permit than the named one; "" if none

    The other arguments are as for ComponentEngine.
    """

    def __init__(
        self,
        kube: Kube,
        agent: str,
        ports: ComponentPorts,
        reach: Reach,
        records: Records,
        host: Host,
        about: Mapping[str, str],
        clock: Clock,
        hands: asyncio.Lock,
        busy: Callable[[], str],
        conflict: Callable[[str], str],
        *,
        patience: Waits = AT_ONCE,
        spread: Spread = random.random,
    ) -> None:
        self._kube, self._agent, self._clock = kube, agent, clock
        self._machine: WireMachine | None = None
        self.teller = StatusPublisher(kube, agent, lambda: self._machine, clock, spread=spread)
        known = {name: about.get(name, "") for name in ("bootID", "os", "kernel", "arch")}
        self.engine = ComponentEngine(
            ports,
            reach,
            records,
            Library(kube, WireMachineHost(*known.values())),
            host,
            clock,
            hands,
            busy,
            LivePermits(MachineReader(kube, agent), conflict, clock),
            self.teller.tell,
            patience=patience,
            spread=spread,
        )
        self.parts: list[Part] = [self.engine, self.teller]

    def observe_machine(self, machine: WireMachine | None) -> None:
        """Take the newest state of the own Machine; None if it was deleted. Never blocks."""
        self._machine = machine
        self.engine.observe_machine(machine)
        self.teller.wake()

    def watch(self, watch_seconds: float) -> Informer[WireMachine]:
        """Return an informer of the own Machine alone, which is a Part."""
        informer = Informer(
            self._kube,
            custom(PLURAL),
            decode_machine,
            field_selector=f"metadata.name={self._agent}",
            clock=self._clock,
            name="own machine",
            watch_seconds=watch_seconds,
            relist_spread=RELIST_SPREAD,
            relist_after_loss=True,
        )
        informer.add_handler(lambda key, old, new: self.observe_machine(new))
        return informer
