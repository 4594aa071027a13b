"""Offsets of hosts' clocks, as their agents measure them: the fact `node.clockOffset`.

An agent compares its host's clock with the `Date` of the API server's responses and writes the
difference into its Lease, with the usual renewal. An offset counts while its Lease is renewed: a
silent agent says nothing about the clock now.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.kube.objects import Node
from remedy.remedier.leases import AGENT_LEASES, Renewal, bounds

CLOCK_OFFSET = "node.clockOffset"
LONGEST_AGE = 40.0
"""Oldest Lease that counts, in seconds; the agent renews it four times in this time."""
MOST_SECONDS = 1e10
"""Largest offset that counts, in seconds, some 300 years."""


class LeaseLookup(Protocol):
    def get(self, key: str) -> Renewal | None: ...


class LeaseAge(Protocol):
    def age(self, name: str) -> float | None: ...


class ClockOffsets:
    """Reads offsets from agents' Leases.

    agent_of: returns the name of a node's agent
    wake: called with the name of an agent when its offset passes a value that some rule compares it
        with
    """

    def __init__(
        self,
        leases: LeaseLookup,
        ages: LeaseAge,
        agent_of: Callable[[Node], str],
        wake: Callable[[str], None] = lambda agent: None,
    ) -> None:
        self._leases, self._ages, self._agent_of, self._wake = leases, ages, agent_of, wake
        self._bounds: tuple[float, ...] = ()

    def of(self, node: Node) -> float | None:
        """Return the seconds by which the host's clock is ahead, negative for behind; None is
        unknown.
        """
        agent = self._agent_of(node)
        age = self._ages.age(agent)
        if age is None or age > LONGEST_AGE:
            return None
        return _word(self._leases.get(f"{AGENT_LEASES}/{agent}"))

    def rules_loaded(self, rules: Iterable[NodeRemedier]) -> None:
        """Take the bounds from the rules: offsets at which nodes must be evaluated again."""
        self._bounds = tuple(sorted(bounds(rules, CLOCK_OFFSET)))

    def changed(self, key: str, old: Renewal | None, new: Renewal | None) -> None:
        """Handle a change from the informer of agents' Leases."""
        if not self._bounds or new is None:
            return
        if self._side(_word(old)) != self._side(_word(new)):
            self._wake(new.metadata.name)

    def _side(self, offset: float | None) -> tuple[bool, ...] | None:
        if offset is None:
            return None
        return tuple(side for b in self._bounds for side in (offset > b, offset < b))


def _word(lease: Renewal | None) -> float | None:
    """Return the offset in the Lease; None if it is missing or invalid."""
    if lease is None or lease.metadata.annotations is None:
        return None
    try:
        offset = float(lease.metadata.annotations.clock_offset or "")
    except ValueError:
        return None
    return offset if abs(offset) <= MOST_SECONDS else None
