"""The port to providers that switch machines: a cloud, a BMC, or a host with containers.

There is one port for all, so that a repair does not depend on where it runs. The Node's
`spec.providerID` identifies a machine; a provider says which machines it owns. `off` and `on` set a
desired state and may be repeated. `reset` and `replace` set no state, so they carry a request ID: a
provider that remembers request IDs ignores a repetition. A provider that cannot remember them has
`repeatable` False, and the caller sends the request only once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class PowerState(StrEnum):
    """Power state of the machine itself as its provider reports it, not of its operating system.

    OFF: proved that the machine runs nothing and reaches no disk, its own or another's
    GONE: the machine does not exist any more, and nothing of it runs
    """

    ON = "On"
    OFF = "Off"
    STARTING = "Starting"
    STOPPING = "Stopping"
    GONE = "Gone"
    UNKNOWN = "Unknown"

    @property
    def dark(self) -> bool:
        """Return whether nothing of the machine can run, as fencing and forced deletion require."""
        return self in (PowerState.OFF, PowerState.GONE)


@dataclass(frozen=True, slots=True)
class ProviderMachine:
    """The machine of a Node.

    provider_id: `spec.providerID`, unchanged
    node: name of the Node
    annotations: of the Node, which may name its BMC or its instance
    """

    provider_id: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Power:
    """Power state of a machine at one moment.

    raw: the state in the provider's own words, for people
    at: when it was read
    """

    state: PowerState
    raw: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Can:
    """Operations that a provider supports for its machines."""

    off: bool = False
    """Switches off by force, with proof, and on again as the same machine with its disks."""
    reset: bool = False
    repeatable: bool = False
    """Ignores a `reset` or `replace` with a request ID that it has carried out already."""
    replace: bool = False
    """Lets the machine's group create another machine in its place."""
    renews: bool = False
    """`replace` recreates the machine with the same ID: never GONE, proved by a new boot ID."""
    approve: bool = False


class Provider(Protocol):
    """A provider of machines. Methods raise ProviderError and nothing else; none blocks the loop.

    name: in the operator's settings and in metrics: aws, azure, alibaba, gcp, redfish or local
    """

    name: str
    can: Can

    def owns(self, machine: ProviderMachine) -> bool:
        """Return whether the machine belongs to this provider. Pure."""
        ...

    async def power(self, machine: ProviderMachine) -> Power: ...

    async def off(self, machine: ProviderMachine, request: str) -> None:
        """Switch off by force: a system that hangs ignores a request. `power` shows the result."""
        ...

    async def on(self, machine: ProviderMachine, request: str) -> None: ...

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        """Reboot the machine without help of its system. Only a new boot ID proves it."""
        ...

    async def replace(self, machine: ProviderMachine, request: str) -> None:
        """Remove this machine so that its group creates another. `power` returns GONE in the end.

        With `can.renews` the machine comes back under the same ID instead.
        """
        ...

    async def approve(self, machine: ProviderMachine, event: str) -> None:
        """Let the cloud's planned event start. `event` is the externalID of its HostEvent."""
        ...

    async def close(self) -> None: ...
