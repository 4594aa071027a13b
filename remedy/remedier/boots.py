"""Which boot a host runs: by the word of its kubelet or of its agent, whichever is newer.

The kubelet tells the boot ID in the Node, the agent in an annotation of its Lease. Either may stay
away after a boot, and its word is then of the boot before. Both stamp what they write by the clock
of the same host: the kubelet lastHeartbeatTime of the condition Ready, which the node controller
leaves alone when it writes Unknown, the agent renewTime. The later stamp is the newer word, so

    nothing is remembered       after a restart of ours, or under another leader, it is the same
    nothing goes back           who falls silent leaves his last word behind, and its stamp
    a clock that a boot set back makes the newer word look old: until the clock is right again the
                                boot is not proven; it is never proven wrongly
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from kubenode.runtime.clock import Clock
from kubenode.runtime.hosttime import HostTime, host_time
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from remedy.remedier.leases import AGENT_LEASES, Renewal
from rules.history import DAWN

LONGEST = 64
"""Characters of a boot ID in our API; a longer word of an agent is none."""


def boot_of(node: Node, lease: Renewal | None) -> str:
    """The boot ID of a node's host, "" is unknown. `lease` is the one of its agent."""
    word = "" if lease is None else told(lease)
    if lease is not None and 0 < len(word) <= LONGEST:
        renewed = _time(lease.spec.renew_time)
        if renewed is not None and renewed > _node_told_at(node):
            return word
    return node.status.node_info.boot_id


def told(lease: Renewal) -> str:
    """What the agent says, be it well formed or not; "" if it says nothing."""
    annotations = lease.metadata.annotations
    return "" if annotations is None else annotations.boot_id


def _node_told_at(node: Node) -> HostTime:
    """A Node tells nothing that is older than itself: what the agent of another machine said under
    this name does not count. Its times are whole seconds; one that both share is the kubelet's.
    """
    ready = node.ready_condition
    made = node.metadata.creation_timestamp
    heard = ready.last_heartbeat_time if ready else None
    # The one comparison with the API server's clock: a host that is behind is not believed.
    times = (heard, None if made is None else host_time(made))
    last = max((at for at in times if at is not None), default=None)
    return host_time(DAWN) if last is None else last.replace(microsecond=999_999)


def _time(text: str | None) -> HostTime | None:
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return host_time(at) if at.tzinfo is not None else None


class Boots:
    """The agents' Leases as far as boots go.

    wake  called with the name of an agent that tells another boot than before, or tells no more
    """

    def __init__(
        self,
        leases: Informer[Renewal],
        clock: Clock,
        wake: Callable[[str], None] = lambda agent: None,
    ) -> None:
        self._leases, self._clock, self._wake = leases, clock, wake
        self._first: dict[str, float] = {}
        """Monotonic times at which we first heard agents tell the boots that they tell now."""

    def known(self) -> bool:
        """Whether the Leases were read since our start: before that no agent's word is known, and
        the kubelet's alone could take us back to an older boot.
        """
        return self._leases.synced.is_set()

    def of(self, node: Node, agent: str) -> str:
        """The boot ID of the node's host, "" is unknown."""
        if not self.known():
            return ""
        return boot_of(node, self._leases.get(f"{AGENT_LEASES}/{agent}"))

    def since(self, agent: str) -> datetime | None:
        """When we first heard the agent tell its boot, which is no younger; None: it tells none."""
        first = self._first.get(agent)
        if first is None:
            return None
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - first)

    def changed(self, key: str, old: Renewal | None, new: Renewal | None) -> None:
        """The handler of the informer of Leases: a usual renewal costs a comparison."""
        if old is not None and new is not None and told(old) == told(new):
            return
        lease = new or old
        if lease is None:
            return
        agent = lease.metadata.name
        if new is None:
            self._first.pop(agent, None)
        else:
            self._first[agent] = self._clock.monotonic()
        self._wake(agent)
