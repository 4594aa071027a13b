"""Determines which boot a host runs, from its kubelet or its agent, whichever report is newer.

The kubelet reports the boot ID in the Node, the agent in an annotation of its Lease. Either may be
silent after a boot, and its report is then of the boot before. Both timestamp what they write by
the clock of the same host: the kubelet lastHeartbeatTime of the condition Ready, which the node
controller does not change when it writes Unknown, and the agent renewTime. The later timestamp
marks the newer report. Therefore

- nothing is remembered: the result is the same after a restart of ours or under another leader
- the result never goes back: a silent reporter leaves its last report and its timestamp
- a clock that a boot set back makes the newer report look old: the boot is not proven until the
    clock is right again, and is never proven wrongly
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
"""Longest boot ID in our API, in characters; a longer one from an agent is ignored."""


def boot_of(node: Node, lease: Renewal | None) -> str:
    """Return the boot ID of a node's host; "" if unknown. `lease` is the one of its agent."""
    word = "" if lease is None else read_boot_id(lease)
    if lease is not None and 0 < len(word) <= LONGEST:
        renewed = _time(lease.spec.renew_time)
        if renewed is not None and renewed > _kubelet_report_time(node):
            return word
    return node.status.node_info.boot_id


def read_boot_id(lease: Renewal) -> str:
    """Return the agent's boot ID as it is, well formed or not; "" if there is none."""
    annotations = lease.metadata.annotations
    return "" if annotations is None else annotations.boot_id


def _kubelet_report_time(node: Node) -> HostTime:
    """Return when the kubelet reported, no earlier than the creation of the Node, so that the agent
    of an earlier machine with this name does not count. Times are whole seconds; on a tie the
    kubelet wins.
    """
    ready = node.ready_condition
    made = node.metadata.creation_timestamp
    heartbeat = ready.last_heartbeat_time if ready else None
    # The one comparison with the API server's clock: reports of a host that is behind are ignored.
    times = (heartbeat, None if made is None else host_time(made))
    last = max((at for at in times if at is not None), default=None)
    return host_time(DAWN) if last is None else last.replace(microsecond=999_999)


def _time(text: str | None) -> HostTime | None:
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return host_time(at) if at.tzinfo is not None else None


class Boots:
    """Boot IDs from agents' Leases and from Nodes.

    wake: called with the name of an agent after its boot ID changed or disappeared
    """

    def __init__(
        self,
        leases: Informer[Renewal],
        clock: Clock,
        wake: Callable[[str], None] = lambda agent: None,
    ) -> None:
        self._leases, self._clock, self._wake = leases, clock, wake
        self._first: dict[str, float] = {}
        """Monotonic times at which we first saw the boot IDs that agents report now."""

    def known(self) -> bool:
        """Report whether the Leases were read since our start. Before that no agent's report is
        known, and the kubelet's alone could be of an older boot.
        """
        return self._leases.synced.is_set()

    def of(self, node: Node, agent: str) -> str:
        """Return the boot ID of the node's host; "" if unknown."""
        if not self.known():
            return ""
        return boot_of(node, self._leases.get(f"{AGENT_LEASES}/{agent}"))

    def since(self, agent: str) -> datetime | None:
        """Return when we first saw the agent's boot ID, an upper bound of the boot time; None: it
        reports none.
        """
        first = self._first.get(agent)
        if first is None:
            return None
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - first)

    def changed(self, key: str, old: Renewal | None, new: Renewal | None) -> None:
        """Handle a change from the informer of Leases: a usual renewal costs one comparison."""
        if old is not None and new is not None and read_boot_id(old) == read_boot_id(new):
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
