"""Credential errors of the providers' last lists, for the conditions of classes."""

from collections.abc import Callable

from kubenode.providers.instances import ErrorCode, InstanceError

LETS_NOBODY_IN = frozenset({ErrorCode.UNAUTHENTICATED, ErrorCode.PERMISSION_DENIED})
"""Errors that show that the provider rejects the credentials."""


class Sightings:
    """The last credential error of each provider.

    listeners: called when the result of a provider changes.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []
        self._refused: dict[str, str] = {}

    def refused(self, provider: str) -> str:
        """Return why the provider rejects the credentials, "" if it does not or that is unknown."""
        return self._refused.get(provider, "")

    def record_list(self, provider: str, error: InstanceError | None) -> None:
        """Record the result of a list. Errors other than credential errors change nothing."""
        if error is not None and error.code not in LETS_NOBODY_IN:
            return
        why = "" if error is None else str(error)
        if self._refused.get(provider, "") != why:
            self._refused[provider] = why
            for tell in self.listeners:
                tell()
