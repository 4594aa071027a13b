"""Virtual machines of Azure, standalone or in a scale set of uniform mode.

The resource manager has no client token. `off` and `on` set a desired state and may be repeated;
`reset` and `replace` are sent once. A request returns as soon as it is accepted: only the power
state shows its outcome.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from azure.core import AzureClouds
from azure.core.credentials import TokenCredential
from azure.identity import AzureAuthorityHosts, DefaultAzureCredential
from azure.mgmt.compute import ComputeManagementClient

from kubenode.providers import ids
from kubenode.providers.azure.errors import NAME, explain
from kubenode.providers.errors import Busy, ProviderError, Refused, Unsupported
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.sameness import differs
from kubenode.providers.settings import AzureCloud, AzureReplace, AzureSettings
from kubenode.providers.threads import Once, still_wanted
from kubenode.runtime.clock import Clock

STATES = {
    "PowerState/deallocated": PowerState.OFF,
    "PowerState/deallocating": PowerState.STOPPING,
    "PowerState/running": PowerState.ON,
    "PowerState/starting": PowerState.STARTING,
    "PowerState/stopped": PowerState.OFF,
    "PowerState/stopping": PowerState.STOPPING,
}
"""Power state by status code of the instance view. Without one of these codes it is UNKNOWN."""
HIBERNATED = "HibernationState/Hibernated"
"""Status code of a hibernated machine. A start restores its memory with pending writes, so its
power state is UNKNOWN, not OFF.
"""
CLOUDS = {
    AzureCloud.PUBLIC: (AzureClouds.AZURE_PUBLIC_CLOUD, AzureAuthorityHosts.AZURE_PUBLIC_CLOUD),
    AzureCloud.CHINA: (AzureClouds.AZURE_CHINA_CLOUD, AzureAuthorityHosts.AZURE_CHINA),
    AzureCloud.US_GOVERNMENT: (
        AzureClouds.AZURE_US_GOVERNMENT,
        AzureAuthorityHosts.AZURE_GOVERNMENT,
    ),
}


@dataclass(frozen=True, slots=True)
class AzureInstance:
    """A virtual machine as Azure describes it.

    names: of the computer, as the resource manager and the system's setup know it
    codes: status codes of the instance view
    """

    names: tuple[str, ...]
    codes: tuple[str, ...]

    @property
    def state(self) -> PowerState:
        if HIBERNATED in self.codes:
            return PowerState.UNKNOWN
        known = [STATES[code] for code in self.codes if code in STATES]
        return known[0] if len(known) == 1 else PowerState.UNKNOWN


class Azure:
    """Provider for the machines of one subscription.

    `credential`: the default credential chain of the SDK if None.
    """

    name = NAME

    def __init__(
        self, settings: AzureSettings, clock: Clock, credential: TokenCredential | None = None
    ) -> None:
        self.can = Can(
            off=True,
            reset=True,
            replace=True,
            renews=settings.replace is AzureReplace.REIMAGE,
        )
        self._settings = settings
        self._clock = clock
        self._client = Once(lambda: compute_client(settings, credential))

    def owns(self, machine: ProviderMachine) -> bool:
        try:
            subscription = ids.azure(machine.provider_id).subscription
        except ids.BadID:
            return False
        return subscription.lower() == self._settings.subscription.lower()

    def power(self, machine: ProviderMachine) -> Power:
        instance = self._read_instance(machine)
        return Power(instance.state, ", ".join(instance.codes), self._clock.now())

    def off(self, machine: ProviderMachine, request: str) -> None:
        if not self._checked(machine).state.dark:
            self._ask(machine, "begin_power_off", skip_shutdown=True)

    def on(self, machine: ProviderMachine, request: str) -> None:
        match self._checked(machine).state:
            case PowerState.ON | PowerState.STARTING:
                return
            case PowerState.STOPPING:
                raise Busy(NAME, "the machine is being stopped")
            case _:
                self._ask(machine, "begin_start")

    def reset(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        if instance.state.dark:
            raise Refused(NAME, f"the machine is off ({', '.join(instance.codes)}): switch it on")
        self._ask(machine, "begin_restart")

    def replace(self, machine: ProviderMachine, request: str) -> None:
        self._checked(machine)
        if not ids.azure(machine.provider_id).scale_set:
            raise Refused(NAME, "the machine is in no scale set of uniform mode: none would follow")
        reimage = self._settings.replace is AzureReplace.REIMAGE
        self._ask(machine, "begin_reimage" if reimage else "begin_delete")

    def approve(self, machine: ProviderMachine, event: str) -> None:
        raise Unsupported(NAME, "scheduled events are approved from inside the machine only")

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (client := self._client.made) is not None:
            client.close()

    def _ask(self, machine: ProviderMachine, what: str, **how: bool) -> None:
        """Send one request to the scale set or the machine, without waiting for its outcome.

        `what` names the SDK's operation, `how` its options.
        """
        wanted, client = ids.azure(machine.provider_id), self._client.get()
        still_wanted(NAME)
        if wanted.scale_set:
            ask: Callable[..., Any] = getattr(client.virtual_machine_scale_set_vms, what)
            ask(wanted.group, wanted.scale_set, wanted.name, polling=False, **how)
        else:
            ask = getattr(client.virtual_machines, what)
            ask(wanted.group, wanted.name, polling=False, **how)

    def _read_instance(self, machine: ProviderMachine) -> AzureInstance:
        wanted, client = ids.azure(machine.provider_id), self._client.get()
        answer: Mapping[str, Any]
        if wanted.scale_set:
            answer = client.virtual_machine_scale_set_vms.get(
                wanted.group, wanted.scale_set, wanted.name, expand="instanceView"
            )
            answered = str(answer.get("instanceId") or "")
        else:
            answer = client.virtual_machines.get(wanted.group, wanted.name, expand="instanceView")
            answered = str(answer.get("name") or "")
        if answered.lower() != wanted.name.lower():
            raise Refused(NAME, f"asked for {wanted.name}, Azure answers {answered!r}")
        about = answer.get("properties") or {}
        named = (about.get("osProfile") or {}).get("computerName") or ""
        return AzureInstance(
            names=(named,) if named or wanted.scale_set else (answered,),
            codes=tuple(
                str(status.get("code", ""))
                for status in (about.get("instanceView") or {}).get("statuses") or ()
            ),
        )

    def _checked(self, machine: ProviderMachine) -> AzureInstance:
        """Return the machine, proved to be the Node's. Raises Refused on a mismatch."""
        instance = self._read_instance(machine)
        if wrong := differs(machine.node, instance.names):
            raise Refused(NAME, wrong)
        return instance


def compute_client(
    settings: AzureSettings, given: TokenCredential | None
) -> ComputeManagementClient:
    """Build a client without retries: the caller retries, and no restart is sent twice."""
    cloud, authority = CLOUDS[settings.cloud]
    connect, read = settings.seconds
    return ComputeManagementClient(
        given or DefaultAzureCredential(authority=authority, process_timeout=int(read)),
        settings.subscription,
        base_url=settings.endpoint or None,
        cloud_setting=cloud,
        retry_total=0,
        connection_timeout=connect,
        read_timeout=read,
        connection_verify=settings.ca_file or True,
        user_agent="kubenode",
    )
