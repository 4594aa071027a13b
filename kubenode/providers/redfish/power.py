"""Servers, through the Redfish service of their BMC.

The BMC's address comes from the settings, or from annotation `kubenode.io/bmc` of the Node. A
kubelet may write annotations of its own Node. So an address outside of the networks and domains of
the settings is never called: it would receive the credentials. A system at an annotated address is
accepted as the Node's only if its HostName says so. Otherwise some other BMC that is off would
prove that a running host is off. Each call opens a connection of its own, because a BMC allows only
a few.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sushy
from requests import RequestException
from sushy.auth import BasicAuth, SessionAuth
from sushy.connector import Connector
from sushy.exceptions import SushyError

from kubenode.providers.errors import Denied, ProviderError, Refused, Unsupported
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.redfish.bmc import BadBmc, Bmc, inside, parse
from kubenode.providers.redfish.errors import NAME, explain
from kubenode.providers.sameness import differs
from kubenode.providers.settings import RedfishAuth, RedfishSettings
from kubenode.providers.threads import still_wanted
from kubenode.runtime.clock import Clock

BMC = "kubenode.io/bmc"
"""Annotation of a Node: the address of its BMC, as kubenode.providers.redfish.bmc reads it."""
STATES = {
    sushy.PowerState.OFF: PowerState.OFF,
    sushy.PowerState.ON: PowerState.ON,
    sushy.PowerState.POWERING_OFF: PowerState.STOPPING,
    sushy.PowerState.POWERING_ON: PowerState.STARTING,
}
"""PowerState of ComputerSystem (DSP0266). A paused system keeps its memory: UNKNOWN, not OFF."""
NO_NAMES = frozenset({"", "localhost", "localhost.localdomain", "none", "null"})


class Redfish:
    """Provider for the BMCs in the settings' networks and domains."""

    name = NAME
    can = Can(off=True, reset=True)

    def __init__(self, settings: RedfishSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def owns(self, machine: ProviderMachine) -> bool:
        return bool(self._address(machine))

    def power(self, machine: ProviderMachine) -> Power:
        with self._checked(machine) as system:
            raw = system.power_state
        named = raw.value if raw is not None else "not told"
        return Power(STATES.get(raw, PowerState.UNKNOWN), named, self._clock.now())

    def off(self, machine: ProviderMachine, request: str) -> None:
        with self._checked(machine) as system:
            if system.power_state is not sushy.PowerState.OFF:
                _switch(system, sushy.ResetType.FORCE_OFF)

    def on(self, machine: ProviderMachine, request: str) -> None:
        with self._checked(machine) as system:
            if system.power_state not in (sushy.PowerState.ON, sushy.PowerState.POWERING_ON):
                _switch(system, sushy.ResetType.ON)

    def reset(self, machine: ProviderMachine, request: str) -> None:
        with self._checked(machine) as system:
            if system.power_state is not sushy.PowerState.ON:
                raise Refused(NAME, f"the system is {system.power_state}, not on")
            allowed = system.get_allowed_reset_system_values()
            wanted = sushy.ResetType.FORCE_RESTART
            if wanted not in allowed and sushy.ResetType.POWER_CYCLE in allowed:
                wanted = sushy.ResetType.POWER_CYCLE
            _switch(system, wanted)

    def replace(self, machine: ProviderMachine, request: str) -> None:
        raise Unsupported(NAME, "no BMC makes another machine")

    def approve(self, machine: ProviderMachine, event: str) -> None:
        raise Unsupported(NAME, "no BMC plans events")

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        """Do nothing: no connection stays open between calls."""

    def _address(self, machine: ProviderMachine) -> str:
        return self._settings.bmcs.get(machine.node) or machine.annotations.get(BMC, "")

    def _bmc(self, machine: ProviderMachine) -> Bmc:
        """Return the machine's BMC. Raises Refused if the address is malformed or not permitted."""
        try:
            bmc = parse(self._address(machine))
        except BadBmc as error:
            raise Refused(NAME, f"BMC of {machine.node}: {error}") from error
        if machine.node in self._settings.bmcs or inside(bmc.host, self._settings.within):
            return bmc
        places = ", ".join(self._settings.within)
        raise Refused(NAME, f"BMC {bmc.host} of {machine.node} is not within {places}")

    @contextmanager
    def _system(self, machine: ProviderMachine) -> Iterator[Any]:
        """Read the machine's ComputerSystem."""
        bmc, settings = self._bmc(machine), self._settings
        connect, read = settings.seconds
        user, password = map(_secret, settings.credentials_of(bmc.host))
        kind = SessionAuth if settings.auth is RedfishAuth.SESSION else BasicAuth
        auth = kind(user, password)
        # One attempt: after a late answer the SDK would repeat even a restart.
        connector = Connector(
            bmc.url,
            verify=(settings.ca_file or True) if settings.verify_tls else False,
            server_side_retries=1,
            connect_timeout=connect,
            default_request_timeout=read,
        )
        try:
            root = sushy.Sushy(bmc.url, auth=auth, connector=connector)
            yield root.get_system(bmc.system or _only_system(root))
        finally:
            # A session that cannot be closed expires, and does not undo the request.
            with suppress(SushyError, RequestException):
                auth.close()
            connector.close()

    @contextmanager
    def _checked(self, machine: ProviderMachine) -> Iterator[Any]:
        """Read the system, proved to be the Node's. Raises Refused on a mismatch."""
        with self._system(machine) as system:
            if wrong := self._wrong(machine.node, str(system.hostname or "").lower()):
                raise Refused(NAME, wrong)
            yield system

    def _wrong(self, node: str, named: str) -> str:
        """Return why a system with HostName `named` is not accepted as the Node's, "" if it is."""
        settings = self._settings
        other = "" if named in NO_NAMES else differs(node, (named,))
        if (
            node not in settings.bmcs
            and not settings.trust_annotations
            and (other or named in NO_NAMES)
        ):
            return (
                f"{other or 'the system has no HostName'}, and the address is the Node's own word:"
                " name the BMC in bmcs, or set the HostName; trustAnnotations: true passes over it"
            )
        if other and settings.check_host_name:
            return f"{other}; checkHostName: false passes over it"
        return ""


def _switch(system: Any, how: sushy.ResetType) -> None:
    still_wanted(NAME)
    system.reset_system(how)


def _only_system(root: Any) -> str:
    members = root.get_system_collection().members_identities
    if len(members) != 1:
        there = ", ".join(members) or "none"
        raise Refused(NAME, f"the BMC has {len(members)} systems ({there}): name one in {BMC}")
    return str(members[0])


def _secret(path: str) -> str:
    """Read a credential at each call, because a mounted Secret changes. Raises Denied."""
    try:
        return Path(path).read_text(encoding="utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Denied(NAME, f"credentials: {error}") from error
