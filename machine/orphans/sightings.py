"""What the providers' last lists said, for those who judge classes by it."""

from collections.abc import Callable

from kubenode.providers.instances import ErrorCode, InstanceError

LETS_NOBODY_IN = frozenset({ErrorCode.UNAUTHENTICATED, ErrorCode.PERMISSION_DENIED})


class Sightings:
    """told  called when the answer of a provider is another one"""

    def __init__(self) -> None:
        self.told: list[Callable[[], None]] = []
        self._refused: dict[str, str] = {}

    def refused(self, provider: str) -> str:
        """Why the provider lets nobody in, "" if it does, or if nobody knows."""
        return self._refused.get(provider, "")

    def heard(self, provider: str, error: InstanceError | None) -> None:
        """A list came, or did not. One that failed for other reasons changes nothing."""
        if error is not None and error.code not in LETS_NOBODY_IN:
            return
        why = "" if error is None else str(error)
        if self._refused.get(provider, "") != why:
            self._refused[provider] = why
            for tell in self.told:
                tell()
