"""Age of Leases: a Lease that is no longer renewed is the first sign of a host that hangs.

Kubelets renew a Lease each every ten seconds, and agents another. An age counts by our own clock
from the moment at which we saw a renewal, so host clocks do not matter. It ends at the last moment
at which our cache was known to be current, so that a gap in our own cache ages no Lease. Nor does a
delay of our own event loop. When most Leases go silent at once the fault is on our side, and every
age is unknown.

A renewal costs one assignment. A timing wheel holds one deadline for each Lease; at the deadline
the age is checked, and only an age that has passed a bound in some rule wakes its node.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import floor
from typing import Protocol

import msgspec

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.wire import HeadMeta
from kubenode.runtime.loopdelay import Span, joined

log = logging.getLogger(__name__)

NODE_LEASES, AGENT_LEASES = "kube-node-lease", "kubenode-agents"
"""Namespaces of Leases; a Lease has the name of its node or agent."""
LEASE_AGE = "node.leaseAge"
WATCH_SECONDS = 10.0
"""Length of one watch of Leases: the longest time without proof that a silent cache is current."""
CURRENT_SECONDS = 20.0
"""Ages are unknown once the cache was not proven current for this long."""
AGENT_SILENT = 18.0
"""Seconds without a renewal, due about every 10 s, after which an agent counts as silent."""
USUAL = 40
"""leaseDurationSeconds of the Leases of kubelets and our agent, renewed four times in it."""
SOON = 15.0
"""Age in seconds at which a usual renewal is overdue: half an interval late."""
RENEWED_WITHIN = 10.0
"""Seconds in which every Lease of a healthy host is renewed once."""
FORGOTTEN = 300.0
"""Seconds of silence after which a Lease no longer counts for `blind`."""
TICK_SECONDS = 1.0


class RenewalSpec(msgspec.Struct, rename="camel", gc=False):
    """Spec of a Lease. `renew_time` comes from the host's clock: a changed value is a renewal, but
    ages do not use it.
    """

    renew_time: str | None = ""
    lease_duration_seconds: int | None = USUAL


class AgentsWord(msgspec.Struct, gc=False):
    """What an agent writes in the annotations of its Lease."""

    boot_id: str = msgspec.field(default="", name="kubenode.io/boot-id")
    clock_offset: str | None = msgspec.field(default="", name="kubenode.io/clock-offset")


class OwnerUid(msgspec.Struct, gc=False):
    uid: str = ""


class LeaseMeta(HeadMeta, gc=False):
    annotations: AgentsWord | None = None
    owner_references: list[OwnerUid] | None = None


class Renewal(msgspec.Struct, gc=False):
    """The fields of a Lease that renewals need."""

    metadata: LeaseMeta
    spec: RenewalSpec = msgspec.field(default_factory=RenewalSpec)


decode_renewal = msgspec.json.Decoder(Renewal).decode


class Proven(Protocol):
    """A cache that knows since when it is not proven current."""

    def age(self) -> float:
        """Return the seconds since the last proof."""
        ...

    def fresh(self, limit: float) -> bool: ...
    def delays(self) -> Sequence[Span]:
        """Return the times in which our own event loop was late, in monotonic seconds."""
        ...


class Ages(Protocol):
    """Ages of Leases, as the store of facts uses them."""

    def age(self, name: str) -> float | None:
        """Return the seconds since the Lease was renewed; None if unknown."""
        ...

    def changes_at(self, name: str) -> datetime | None:
        """Return when the node must be evaluated again; None: it is woken when needed."""
        ...

    def rules_loaded(self, rules: Iterable[NodeRemedier]) -> None: ...


@dataclass(slots=True)
class _Lease:
    """Renewals of one Lease.

    renewed_at: monotonic time at which we saw the last renewal
    overdue: age at which the next renewal is late
    moved: whether we saw a renewal at all, or only the Lease itself
    passed: age at the last deadline without a renewal; 0: none passed
    due: its slot in the wheel, in monotonic seconds
    """

    renewed_at: float
    overdue: float
    moved: bool = False
    passed: float = 0.0
    due: int = 0


class LeaseAges:
    """A Part that follows the ages of all Leases.

    wake: called with a name after its age passed a bound, or was renewed after that
    expected: whether somebody is known to renew the Lease of that name: a left-behind Lease does
        not count for `blind`
    """

    name = "lease ages"

    def __init__(
        self,
        cache: Proven,
        clock: Clock,
        wake: Callable[[str], None] = lambda name: None,
        expected: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self._cache, self._clock, self.wake, self._expected = cache, clock, wake, expected
        self._leases: dict[str, _Lease] = {}
        self._late: set[str] = set()
        self._forgotten: set[str] = set()
        self._wheel: dict[int, list[str]] = {}
        self._turned = floor(clock.monotonic())
        self._bounds: tuple[float, ...] = ()
        self._was_blind = False

    # -- reading ----------------------------------------------------------------------------------

    def age(self, name: str) -> float | None:
        """Return the age in seconds, by our clock. None: there is no such Lease, most Leases are
        silent, the cache is not current, or the Lease is renewed less often than usual and not
        overdue. A Lease without an observed renewal is unknown until it is overdue; then its age is
        the time for which we have watched it, a lower bound.
        """
        lease = self._leases.get(name)
        if lease is None or not self._cache.fresh(CURRENT_SECONDS) or self.blind:
            return None
        age = self._age(lease)
        if age <= lease.overdue and (age > SOON or not lease.moved):
            return None
        return age

    def unrenewed(self, name: str) -> float | None:
        """Return the seconds for which we have watched the Lease without a renewal, also while ages
        are unknown; None: there is no Lease.
        """
        lease = self._leases.get(name)
        return None if lease is None else self._age(lease)

    def changes_at(self, name: str) -> datetime | None:
        return None

    @property
    def blind(self) -> bool:
        """Whether so many Leases went silent lately that the fault is rather on our side."""
        late = len(self._late) - len(self._forgotten)
        return late > 1 and 2 * late > len(self._leases) - len(self._forgotten)

    def _age(self, lease: _Lease) -> float:
        proven = self._clock.monotonic() - max(self._cache.age(), 0.0)
        return max(proven - lease.renewed_at - self._deaf(lease.renewed_at, proven), 0.0)

    def _deaf(self, since: float, until: float) -> float:
        """Return the seconds in which our own event loop was late or had just caught up: renewals
        of that time may not have been read yet, and the next ones not been due.
        """
        delays = self._cache.delays()
        if not delays:
            return 0.0
        spells = joined([(began, ended + RENEWED_WITHIN) for began, ended in delays])
        times = (min(ended, until) - max(began, since) for began, ended in spells)
        return sum(max(time, 0.0) for time in times)

    # -- what changes -----------------------------------------------------------------------------

    def rules_loaded(self, rules: Iterable[NodeRemedier]) -> None:
        """Take the bounds from the rules: ages at which nodes must be evaluated again."""
        self._bounds = tuple(sorted(bounds(rules)))
        self._wheel.clear()
        for name, lease in self._leases.items():
            self._plan(name, lease)

    def changed(self, key: str, old: Renewal | None, new: Renewal | None) -> None:
        """Handle a change from the informer of Leases."""
        if new is None:
            if old is not None:
                self._gone(old.metadata.name)
            return
        name = new.metadata.name
        if old is None:
            duration = new.spec.lease_duration_seconds or USUAL
            overdue = SOON * max(duration, USUAL) / USUAL
            lease = self._leases[name] = _Lease(self._clock.monotonic(), overdue)
            self._plan(name, lease)
        elif old.spec.renew_time != new.spec.renew_time:
            lease = self._leases[name]
            lease.renewed_at, lease.moved = self._clock.monotonic(), True
            if lease.passed:
                self._back(name, lease)

    def _back(self, name: str, lease: _Lease) -> None:
        lease.passed = 0.0
        self._late.discard(name)
        self._forgotten.discard(name)
        self._plan(name, lease)
        self._tell(name)

    def _gone(self, name: str) -> None:
        self._leases.pop(name, None)
        self._late.discard(name)
        self._forgotten.discard(name)

    def _tell(self, name: str) -> None:
        if self._bounds:
            self.wake(name)

    # -- the wheel --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Check the wheel every second until cancelled."""
        while True:
            await self._clock.sleep(TICK_SECONDS)
            self.turn()

    def turn(self) -> None:
        """Check every Lease with a reached deadline."""
        now = floor(self._clock.monotonic())
        self._turned = max(now, self._turned)
        passed = [
            name
            for slot in sorted(slot for slot in self._wheel if slot <= now)
            for name in self._wheel.pop(slot)
            if self._check_deadline(name, slot)
        ]
        was_blind, self._was_blind = self._was_blind, self.blind
        if was_blind is not self._was_blind:
            self._say(self._was_blind)
        for name in [*self._late] if was_blind and not self._was_blind else passed:
            self._tell(name)

    def _say(self, blind: bool) -> None:
        if blind:
            extra = {"late": len(self._late), "of": len(self._leases)}
            log.warning("most leases fell silent at once: no age is known", extra=extra)
        else:
            log.info("leases are renewed again: ages are known")

    def _plan(self, name: str, lease: _Lease) -> None:
        """Put the Lease into the slot of its next deadline, or into none."""
        following = self._after(lease, lease.passed)
        if following is None:
            lease.due = 0
            return
        lease.due = max(floor(lease.renewed_at + following), self._turned) + 1
        self._wheel.setdefault(lease.due, []).append(name)

    def _check_deadline(self, name: str, slot: int) -> bool:
        """Report whether the Lease has passed its deadline, and plan the next one."""
        lease = self._leases.get(name)
        if lease is None or lease.due != slot:
            return False  # gone, or planned for another slot meanwhile
        age = self._age(lease)
        deadline = self._after(lease, lease.passed)
        passed = deadline is not None and age > deadline
        if passed:
            lease.passed = age
        if age > lease.overdue:
            self._late.add(name)
        if age > FORGOTTEN or (age > lease.overdue and self._is_abandoned(name, lease)):
            self._forgotten.add(name)
        self._plan(name, lease)
        return passed

    def _is_abandoned(self, name: str, lease: _Lease) -> bool:
        return not lease.moved and not self._expected(name)

    def _after(self, lease: _Lease, age: float) -> float | None:
        """Return the next deadline of a Lease of that age; None if there is none."""
        seldom = lease.overdue > SOON  # its age is unknown until it is overdue
        ages = (max(b, lease.overdue) if seldom else b for b in (*self._bounds, FORGOTTEN))
        return min((at for at in (*ages, lease.overdue) if at > age), default=None)


def bounds(rules: Iterable[NodeRemedier], fact: str = LEASE_AGE) -> set[float]:
    """Return every value of the fact that some rule compares with."""
    values = set[float]()
    for rule in rules:
        for expression in (rule.spec.when, rule.spec.unless):
            for leaf in expression.unwrap_leaves() if expression is not None else ():
                if isinstance(leaf, FactLeaf) and leaf.name == fact:
                    values |= {float(b) for b in (leaf.above, leaf.below) if b is not None}
    return values
