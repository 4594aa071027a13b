"""Errors of providers. The type decides what the caller does; the text is for people."""

from datetime import timedelta


class ProviderError(Exception):
    """A provider did not do what was requested.

    provider: its name
    message: the provider's own code and text, without secrets
    """

    def __init__(self, provider: str, message: str) -> None:
        super().__init__(f"{provider}: {message}")
        self.provider = provider
        self.message = message


class Unreachable(ProviderError):
    """No answer, or one by a proxy. It may have taken effect: read the state before a retry."""


class Throttled(ProviderError):
    """Too many requests. `after`: delay before the next one, None if the provider names none."""

    def __init__(self, provider: str, message: str, after: timedelta | None = None) -> None:
        super().__init__(provider, message)
        self.after = after


class Denied(ProviderError):
    """Credentials are missing, expired or lack a right. A person has to act."""


class NoSuchMachine(ProviderError):
    """The provider does not know the machine. A machine that it knew before is gone."""


class Refused(ProviderError):
    """The request cannot be carried out on this machine. A retry does not help."""


class Busy(ProviderError):
    """Another operation on the machine is in progress. Retry later."""


class Unsupported(ProviderError):
    """The provider has no such operation, as its `can` (kubenode.providers.port.Can) says."""
