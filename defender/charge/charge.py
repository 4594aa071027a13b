"""What the service asks of whoever decides who answers: alone, or together with other replicas."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from defender.ledger import LedgerPermit
from defender.store import PermitStore
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.fence import Fence, leads
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.process import Part


class NotInCharge(Exception):
    """No answer of this replica counts now: the text says why."""


class Charge(Protocol):
    """A grant is `take`, the write of the Permit, `confirm`; only then it is answered."""

    @property
    def parts(self) -> Sequence[Part]:
        """What must run on every replica."""
        ...

    def stores(self) -> Mapping[str, Callable[[], bool]]:
        """What it stands on beside the API server, and whether that answers: for the metrics."""
        ...

    def why_not(self) -> str:
        """ "" while this replica may answer."""
        ...

    def alone(self) -> bool:
        """Whether no other replica can answer now."""
        ...

    def mark(self) -> object:
        """Equal to an earlier one as long as the same reign goes on."""
        ...

    async def begin(self) -> None:
        """The lease is held. Raises KubeError, ValueError: try again."""
        ...

    async def look(self) -> None:
        """From here on the ledger has what other replicas took. Raises NotInCharge."""
        ...

    def gate(self) -> AbstractAsyncContextManager[None]:
        """Within it a permit is judged, entered and taken; what others took waits outside."""
        ...

    async def take(self, held: LedgerPermit) -> bool:
        """Whether `held`, entered a moment ago, is taken; False: others took something, and it has
        been left out of the ledger again. Raises NotInCharge: it is left out, and nothing came of
        it.
        """
        ...

    async def confirm(self, held: LedgerPermit, mark: object) -> None:
        """It is on record now: does that still count? Raises NotInCharge."""
        ...

    async def tell(self, held: LedgerPermit) -> None:
        """What became of it, for the other replicas; they learn it late if this fails."""
        ...


class Solo:
    """One Defender: whoever holds the lease, from memory, once the Permits are loaded."""

    parts: Sequence[Part] = ()

    def __init__(self, store: PermitStore, fence: Fence, permits: Informer[Permit]) -> None:
        self._store, self._fence = store, fence

    def stores(self) -> Mapping[str, Callable[[], bool]]:
        return {}

    async def begin(self) -> None:
        """Read the permits live: caches may lag behind what another leader granted last."""
        await self._store.load()

    def why_not(self) -> str:
        if not self._store.ready:
            return "Kube Defender has not loaded the permits yet"
        return "" if leads(self._fence) else "this Kube Defender does not hold the lease"

    def alone(self) -> bool:
        return not self.why_not()

    def mark(self) -> object:
        return None

    async def look(self) -> None:
        if why := self.why_not():
            raise NotInCharge(why)

    def gate(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def take(self, held: LedgerPermit) -> bool:
        held.late = False
        return True

    async def confirm(self, held: LedgerPermit, mark: object) -> None:
        """A create that was slow may have landed after another leader listed the Permits."""
        if why := self.why_not():
            held.late = True
            raise NotInCharge(why)

    async def tell(self, held: LedgerPermit) -> None:
        return


MakeCharge = Callable[[PermitStore, Fence, Informer[Permit]], Charge]
