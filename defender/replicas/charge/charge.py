"""Interface of single-leader and multi-replica operation, and the single-leader implementation."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from defender.decision.ledger import LedgerPermit
from defender.server.store import PermitStore
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.fence import Fence, leads
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.process import Part


class NotInCharge(Exception):
    """This replica must not answer now. The message says why."""


class Charge(Protocol):
    """Coordination of replicas. A grant is `take`, the write of the Permit, and `confirm`."""

    @property
    def parts(self) -> Sequence[Part]:
        """Parts that run on every replica."""
        ...

    def stores(self) -> Mapping[str, Callable[[], bool]]:
        """Return the stores besides the API server, each with whether it answers, for the
        metrics.
        """
        ...

    def why_not(self) -> str:
        """Return "" while this replica may answer, else why not."""
        ...

    def alone(self) -> bool:
        """Return whether no other replica can answer now."""
        ...

    def mark(self) -> object:
        """Return a value that stays equal while the same leader or log is in charge."""
        ...

    async def begin(self) -> None:
        """Start after the lease was acquired. Raises KubeError and ValueError; then try again."""
        ...

    async def sync_ledger(self) -> None:
        """Bring the ledger up to date with what other replicas took. Raises NotInCharge."""
        ...

    def gate(self) -> AbstractAsyncContextManager[None]:
        """Hold the gate in which a permit is judged, entered and taken. Changes of others wait
        outside.
        """
        ...

    async def take(self, permit: LedgerPermit) -> bool:
        """Take a permit that was just entered. Return False if others took something meanwhile.

        The permit is then removed from the ledger. Raises NotInCharge; then it is removed as well,
        and nothing was taken.
        """
        ...

    async def confirm(self, permit: LedgerPermit, mark: object) -> None:
        """Check that the grant still counts, now that its Permit is written. Raises NotInCharge."""
        ...

    async def tell(self, permit: LedgerPermit) -> None:
        """Report the state of the permit to other replicas. If that fails, they learn it later."""
        ...


class Solo:
    """Single-leader operation: the holder of the lease answers from memory, once Permits are
    loaded.
    """

    parts: Sequence[Part] = ()

    def __init__(self, store: PermitStore, fence: Fence, permits: Informer[Permit]) -> None:
        self._store, self._fence = store, fence

    def stores(self) -> Mapping[str, Callable[[], bool]]:
        return {}

    async def begin(self) -> None:
        """Load the permits from the API server. Caches may lag behind the grants of an earlier
        leader.
        """
        await self._store.load()

    def why_not(self) -> str:
        if not self._store.ready:
            return "Kube Defender has not loaded the permits yet"
        return "" if leads(self._fence) else "this Kube Defender does not hold the lease"

    def alone(self) -> bool:
        return not self.why_not()

    def mark(self) -> object:
        return None

    async def sync_ledger(self) -> None:
        if why := self.why_not():
            raise NotInCharge(why)

    def gate(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def take(self, permit: LedgerPermit) -> bool:
        permit.late = False
        return True

    async def confirm(self, permit: LedgerPermit, mark: object) -> None:
        """Check the lease. A slow creation may have succeeded after another leader listed the
        Permits.
        """
        if why := self.why_not():
            permit.late = True
            raise NotInCharge(why)

    async def tell(self, permit: LedgerPermit) -> None:
        return


MakeCharge = Callable[[PermitStore, Fence, Informer[Permit]], Charge]
