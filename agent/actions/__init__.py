"""The fixed catalogue of repairs that this agent can execute. It refuses everything else.

An action reads the host, acts once, and can tell after an interruption whether its result stands.
What it read is journaled with the intent, so that a later process can compare.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from agent.actions.allowlist import AllowedScript, Repairs
from agent.actions.approval import ApproveEvent
from agent.actions.certificate import RenewCertificate
from agent.actions.checks import AllowedCheck, RunCheck
from agent.actions.clock import SyncTime
from agent.actions.components import ComponentRepairs, RepairComponent
from agent.actions.diagnostics import CollectDiagnostics
from agent.actions.disk import CleanDisk
from agent.actions.filesystems import RemountFilesystem
from agent.actions.gpu import ResetGPU
from agent.actions.kernel import LoadModule, ReloadModule, SetSysctl
from agent.actions.network import RestartNetwork
from agent.actions.processes import KillProcess
from agent.actions.reboot import Reboot
from agent.actions.sandboxes import DeleteSandbox
from agent.actions.scripts import RunScript
from agent.actions.units import UnitAction
from agent.detectors.metadata.settings import Metadata
from agent.diagnostics.bundler import DiagnosticsCollector
from agent.host import Host, UnitVerb
from agent.host.files import HostRoot
from agent.host.ports import Ports
from agent.outcome import StepOutcome
from agent.request import StepRequest
from agent.wire import APPROVE, COLLECT, REBOOT
from kubenode.runtime.clock import Clock

Before = Mapping[str, str]
"""Facts that an action read before its act, as short texts; each action has its own keys."""

SETTLE_SECONDS = 1.0
"""Seconds that a unit must stay up after its start to count as started."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What an action works with.

    settle: seconds that a unit must stay up to count as started
    checks: by name, as listed in the agent's configuration
    collector: collects diagnostics; None: there is no folder for them
    ports: the host besides its units; None: only units can be repaired
    allowed: what the agent's configuration lets repairs change
    scripts: scripts that RunScript may run, by name
    metadata: settings of the cloud's metadata service
    components: components of this host; None: the agent manages none
    files: files of the host, for checks and scripts
    """

    host: Host
    clock: Clock
    settle: float = SETTLE_SECONDS
    checks: Mapping[str, AllowedCheck] = field(default_factory=dict)
    collector: DiagnosticsCollector | None = None
    ports: Ports | None = None
    allowed: Repairs = field(default_factory=Repairs)
    scripts: Mapping[str, AllowedScript] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=Metadata)
    components: ComponentRepairs | None = None
    files: HostRoot = field(default_factory=HostRoot)


class Action(Protocol):
    @property
    def announced(self) -> bool:
        """Return whether the answer Running is written before the act, which may end the agent."""
        ...

    def unfit(self, request: StepRequest) -> str:
        """Describe what is wrong with the parameters; "" if they are valid."""
        ...

    async def read_before(self, request: StepRequest, bench: Bench) -> Before:
        """Read what `prove` compares with. Raises HostError: then nothing is done."""
        ...

    async def act(
        self, request: StepRequest, before: Before, limit: float, bench: Bench
    ) -> StepOutcome:
        """Act within `limit` seconds and check the result. Raises HostError."""
        ...

    async def prove(self, before: Before, limit: float, bench: Bench) -> StepOutcome | None:
        """Return the outcome after an interruption on the same boot; None if it cannot be proven.

        Never acts. Raises HostError.
        """
        ...

    def after_boot(self, boot_id: str) -> StepOutcome:
        """Return the outcome of an act if the host now runs another boot, `boot_id`."""
        ...


_REPAIRS = (
    *(KillProcess(), CleanDisk(), SyncTime(), RestartNetwork(), RemountFilesystem()),
    *(LoadModule(), ReloadModule(), SetSysctl(), DeleteSandbox(), ResetGPU()),
    *(RenewCertificate(), RepairComponent(), RunScript()),
)
CATALOGUE: Mapping[str, Action] = {
    **{verb.value: UnitAction(verb) for verb in UnitVerb},
    **{repair.name: repair for repair in _REPAIRS},
    "RunCheck": RunCheck(),
    REBOOT: Reboot(),
    COLLECT: CollectDiagnostics(),
    APPROVE: ApproveEvent(),
}
"""Actions by their name in the API. Other names in the API's catalogue are refused."""
