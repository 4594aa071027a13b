"""Readiness to answer: why verdicts are unavailable now, such as a stale cache."""

from collections.abc import Sequence
from typing import Any

from defender.replicas.charge.charge import Charge
from kubenode.api.v1alpha1 import Reason
from kubenode.runtime.kube.informer import Informer

Why = tuple[Reason, str]
"""Reason and message of the refusal."""


class Sight:
    """Readiness of this replica.

    needed: informers on whose caches verdicts depend. An unreadable object blocks only what it is
        about, not the readiness.
    """

    def __init__(self, charge: Charge, needed: Sequence[Informer[Any]]) -> None:
        self._charge, self._needed = charge, needed

    def blind(self, *, stale_will_do: bool = False) -> Why | None:
        """Return why no request can be answered now, None if requests can be answered.

        stale_will_do: accept stale caches, for a release.
        """
        if why := self._charge.why_not():
            return Reason.STORE_UNAVAILABLE, why
        return None if stale_will_do else self.cannot_see()

    def cannot_see(self) -> Why | None:
        """Return why the caches are not current, None if they are. Applies to standby replicas as
        well.
        """
        for informer in self._needed:
            if not informer.fresh():
                return Reason.STALE_DATA, f"{informer.path.rsplit('/', 1)[-1]} are not up to date"
        return None
