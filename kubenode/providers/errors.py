"""How a provider says no. The type decides what the caller does; the text is for people."""

from datetime import timedelta


class ProviderError(Exception):
    """provider  its name
    message      the provider's own code and words, without secrets
    """

    def __init__(self, provider: str, message: str) -> None:
        super().__init__(f"{provider}: {message}")
        self.provider = provider
        self.message = message


class Unreachable(ProviderError):
    """No answer, or one that the way there made: it may have taken effect. Look, then ask again."""


class Throttled(ProviderError):
    """Too many requests. `after`: when to come again, None if it does not say."""

    def __init__(self, provider: str, message: str, after: timedelta | None = None) -> None:
        super().__init__(provider, message)
        self.after = after


class Denied(ProviderError):
    """Credentials missing, expired or without the right: a person has to act."""


class NoSuchMachine(ProviderError):
    """The provider does not know it. For a machine that it knew before: it is gone."""


class Refused(ProviderError):
    """It cannot be done with this machine, now or at all: asking again will not help."""


class Busy(ProviderError):
    """Another operation on the machine is under way: ask again later."""


class Unsupported(ProviderError):
    """This provider has no such operation: `Can` says so beforehand."""
