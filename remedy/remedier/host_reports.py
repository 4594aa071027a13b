"""Reports of hosts outside their Nodes, from Leases: their age, the boot and the clock's offset."""

from collections.abc import Callable

from kubenode.runtime.clock import Clock
from kubenode.runtime.process import Part
from remedy.assignments.writer import NODES_OF_AGENT
from remedy.informers import RemedyInformers
from remedy.remedier.boots import Boots
from remedy.remedier.build import agent_of
from remedy.remedier.clockoffsets import ClockOffsets
from remedy.remedier.leases import LeaseAges


class HostReports:
    """What the Leases of kubelets and agents report.

    silent: called with a node's name when the age of its Lease passes a value in some rule
    booted: called with an agent's name when it reports another boot
    clock_moved: called with an agent's name when its clock offset passes a value in some rule
    """

    def __init__(
        self,
        informers: RemedyInformers,
        clock: Clock,
        silent: Callable[[str], None],
        booted: Callable[[str], None],
        clock_moved: Callable[[str], None],
    ) -> None:
        self._nodes = informers.nodes
        nodes, agents = informers.node_leases, informers.agent_leases
        self.node_ages = LeaseAges(nodes, clock, silent, self._has_node)
        self.agent_ages = LeaseAges(agents, clock, expected=self._has_agent)
        self.boots = Boots(agents, clock, booted)
        self.clock_offsets = ClockOffsets(agents, self.agent_ages, agent_of, clock_moved)
        nodes.add_handler(self.node_ages.changed)
        for report in (self.agent_ages, self.boots, self.clock_offsets):
            agents.add_handler(report.changed)

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.node_ages, self.agent_ages

    def _has_node(self, name: str) -> bool:
        return name in self._nodes.cache or not self._nodes.synced.is_set()

    def _has_agent(self, name: str) -> bool:
        return bool(self._nodes.by(NODES_OF_AGENT, name)) or not self._nodes.synced.is_set()
