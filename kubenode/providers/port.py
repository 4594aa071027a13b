"""What KubeNode asks of whoever runs the machines: a cloud, a BMC, or a host with containers.

One port for all, so that a repair does not know where it runs. A machine is named by the Node's
`spec.providerID`; a provider says which of them are its own. Whatever is asked is a wish for a
state where that is possible (`off`, `on`): asking again does no harm. What is no state (`reset`,
`replace`) carries a request ID: a provider that knows it already does nothing again, and one that
cannot know says so by `repeatable`, so that the caller asks once only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class PowerState(StrEnum):
    """What the provider says of the machine itself, never what its system says.

    OFF   proven: it runs nothing and reaches no disk of its own or others
    GONE  there is no such machine any more, and nothing of it runs
    """

    ON = "On"
    OFF = "Off"
    STARTING = "Starting"
    STOPPING = "Stopping"
    GONE = "Gone"
    UNKNOWN = "Unknown"

    @property
    def dark(self) -> bool:
        """Whether nothing of it can run: what fencing and force need."""
        return self in (PowerState.OFF, PowerState.GONE)


@dataclass(frozen=True, slots=True)
class ProviderMachine:
    """The machine of a Node.

    provider_id  `spec.providerID`, as it is
    node         name of the Node
    annotations  of the Node: where its BMC is, which group it belongs to
    """

    provider_id: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Power:
    """state   as `PowerState` says
    raw     in the provider's own words, for people
    at      when it was read
    """

    state: PowerState
    raw: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Can:
    """What a provider is able to do with machines of its kind."""

    off: bool = False
    """Switch off by force, with proof, and on again as the same machine with its disks."""
    reset: bool = False
    repeatable: bool = False
    """Whether `reset` and `replace` with a request ID already seen do nothing again."""
    replace: bool = False
    """Have the group that the machine belongs to make another in its place."""
    renews: bool = False
    """Whether `replace` makes the machine anew under the same ID: it is never GONE, and a new boot
    ID is the proof."""
    approve: bool = False


class Provider(Protocol):
    """Every method raises ProviderError (errors.py) and nothing else; none blocks the loop.

    name  as in the operator's settings and in metrics: aws, azure, alibaba, gcp, redfish, local
    """

    name: str
    can: Can

    def owns(self, machine: ProviderMachine) -> bool:
        """Whether the machine is one of this provider's. Pure."""
        ...

    async def power(self, machine: ProviderMachine) -> Power: ...

    async def off(self, machine: ProviderMachine, request: str) -> None:
        """By force: a system that hangs does not hear anything else. `power` shows the end."""
        ...

    async def on(self, machine: ProviderMachine, request: str) -> None: ...

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        """Boot it anew without its system's help. Only a new boot ID proves it."""
        ...

    async def replace(self, machine: ProviderMachine, request: str) -> None:
        """Give this machine back; its group makes another. `power` says GONE in the end.

        Where `can.renews`, it comes back anew under the same ID.
        """
        ...

    async def approve(self, machine: ProviderMachine, event: str) -> None:
        """Tell the cloud that its planned act `event` (HostEvent's externalID) may start."""
        ...

    async def close(self) -> None: ...
