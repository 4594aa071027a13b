"""Which provider a machine belongs to."""

from collections.abc import Sequence

from kubenode.providers.port import Provider, ProviderMachine


class Providers:
    """In the order of the settings: the first that owns a machine has it."""

    def __init__(self, providers: Sequence[Provider] = ()) -> None:
        self._providers = tuple(providers)

    def of(self, machine: ProviderMachine) -> Provider | None:
        """None: nobody can do anything with it."""
        return next((p for p in self._providers if p.owns(machine)), None)

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()
