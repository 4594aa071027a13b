"""Why nothing may be answered now, "" where everything is seen: who is blind says no."""

from collections.abc import Sequence
from typing import Any

from defender.charge.charge import Charge
from kubenode.api.v1alpha1 import Reason
from kubenode.runtime.kube.informer import Informer

Why = tuple[Reason, str]


class Sight:
    """needed   informers whose caches verdicts are made of. An object of theirs that cannot be read
    stops what it is about, and nothing else.
    """

    def __init__(self, charge: Charge, needed: Sequence[Informer[Any]]) -> None:
        self._charge, self._needed = charge, needed

    def blind(self, *, stale_will_do: bool = False) -> Why | None:
        """stale_will_do: for what only gives back."""
        if why := self._charge.why_not():
            return Reason.STORE_UNAVAILABLE, why
        return None if stale_will_do else self.cannot_see()

    def cannot_see(self) -> Why | None:
        """Also of a replica that stands by."""
        for informer in self._needed:
            if not informer.fresh():
                return Reason.STALE_DATA, f"{informer.path.rsplit('/', 1)[-1]} are not up to date"
        return None
