"""Which programs ought to run, and which rules need an agent on the node. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from defender.dashboard.rule import RuleView

REMEDY, MACHINE, EVERYTHING = "kubenode-remedy", "kubenode-machine", "kubenode-all"
"""Leases of the leaders. `kubenode run all` holds EVERYTHING and runs each program."""
TITLES = {REMEDY: "Remedy operator", MACHINE: "Machine operator"}
COMMANDS = {REMEDY: "kubenode run remedy", MACHINE: "kubenode run machine"}
LEADER_SECONDS = 60.0
"""Age of a Lease from which on its holder counts as gone. A leader renews it every few seconds."""
AGENT_PROBES = frozenset({"host", "write", "disk", "clock", "mount", "peers"})
"""Probes that only agents answer: the part of the name before the dot."""


@dataclass(frozen=True, slots=True)
class ProgramSight:
    """What is known of the programs of the cluster.

    leases: age in seconds of each Lease of a leader; a missing one does not exist. None: not read.
    agents: names of the agents that renewed their Lease lately. None: not read.
    machines: whether there are Machines.
    """

    leases: Mapping[str, float] | None = None
    agents: Collection[str] | None = None
    machines: bool = False


NO_SIGHT = ProgramSight()


@dataclass(frozen=True, slots=True)
class AgentCoverage:
    """How many nodes have an agent, and how many rules need one. rules: the names of the latter."""

    nodes: int = 0
    with_agent: int = 0
    rules: tuple[str, ...] = ()

    @property
    def lacks(self) -> bool:
        return bool(self.rules) and self.with_agent < self.nodes


NO_COVERAGE = AgentCoverage()


def find_leaderless(
    sight: ProgramSight, rules: Iterable[RuleView], component_sets: int
) -> tuple[str, ...]:
    """Return the Leases of the programs that ought to run and have no leader."""
    if sight.leases is None:
        return ()
    needed = []
    if any(rule.spec.mode != "Off" for rule in rules):
        needed.append(REMEDY)
    if sight.machines or component_sets:
        needed.append(MACHINE)
    return tuple(name for name in needed if not _is_led(name, sight.leases))


def _is_led(name: str, leases: Mapping[str, float]) -> bool:
    ages = (leases.get(lease) for lease in (name, EVERYTHING))
    return any(age is not None and age < LEADER_SECONDS for age in ages)


def cover_agents(
    sight: ProgramSight, agents: Iterable[str], rules: Iterable[RuleView]
) -> AgentCoverage:
    """Return the coverage. agents: the name of the agent that each node would have."""
    if sight.agents is None:
        return NO_COVERAGE
    names = list(agents)
    needing = tuple(rule.metadata.name for rule in rules if needs_agent(rule))
    return AgentCoverage(len(names), sum(name in sight.agents for name in names), needing)


def needs_agent(rule: RuleView) -> bool:
    """Return whether the rule selects nodes here, and a step or a probe of it needs an agent."""
    spec = rule.spec
    if spec.mode == "Off" or rule.status.would_reach.nodes == 0:
        return False
    return _names_agent([spec.when, spec.unless, list(spec.ladder)])


def _names_agent(value: Any) -> bool:
    if isinstance(value, Mapping):
        probe = value.get("probe")
        name = str(probe.get("name", "")) if isinstance(probe, Mapping) else ""
        if "agent" in value or name.partition(".")[0] in AGENT_PROBES:
            return True
        return any(_names_agent(each) for each in value.values())
    return isinstance(value, list) and any(_names_agent(each) for each in value)
