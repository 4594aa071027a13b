"""The providers of machines, and which of them owns a machine."""

from collections.abc import Sequence

from kubenode.providers.port import Provider, ProviderMachine


class Providers:
    """Providers in the order of the settings. The first one that owns a machine is used."""

    def __init__(self, providers: Sequence[Provider] = ()) -> None:
        self._providers = tuple(providers)

    def of(self, machine: ProviderMachine) -> Provider | None:
        """Return the machine's provider, None if no provider owns it."""
        return next((p for p in self._providers if p.owns(machine)), None)

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()
