"""The fixed catalogue: every repair this agent can do. Nothing else can be asked of it.

An action looks before it acts, acts once, and can say after an interruption whether its result
stands. What it saw before is journaled with the intent, so that a later process can compare.
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
from agent.host.ports import Ports
from agent.outcome import StepOutcome
from agent.request import StepRequest
from agent.wire import APPROVE, COLLECT, REBOOT
from kubenode.runtime.clock import Clock

Before = Mapping[str, str]
"""What was seen before the act, as text, small; each action has its own keys."""

SETTLE_SECONDS = 1.0
"""How long a unit must stay up after its start to count as started."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What an action works with.

    checks      by name those that are listed in the agent's configuration
    collector   of diagnostics; None: there is nowhere to keep them
    ports       the host besides its units; None: nothing but units is repaired
    allowed     what the agent's configuration lets repairs touch
    scripts     by name those that RunScript may run
    metadata    the cloud's metadata service, if its settings name one
    components  of this host; None: none is managed here
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


class Action(Protocol):
    @property
    def announced(self) -> bool:
        """Whether it is told that it begins, since its end may come with the agent's own."""
        ...

    def unfit(self, request: StepRequest) -> str:
        """Why its parameters make no sense; "" if they do."""
        ...

    async def read_before(self, request: StepRequest, bench: Bench) -> Before:
        """Read what `prove` will compare with. Raises HostError: then nothing is done."""
        ...

    async def act(
        self, request: StepRequest, before: Before, limit: float, bench: Bench
    ) -> StepOutcome:
        """Do it, within `limit` seconds, and see that it worked. Raises HostError."""
        ...

    async def prove(self, before: Before, limit: float, bench: Bench) -> StepOutcome | None:
        """After an interruption on the same boot: the outcome if it can be seen, else None.

        Never acts. Raises HostError.
        """
        ...

    def after_boot(self, boot_id: str) -> StepOutcome:
        """The outcome of an act after which the host runs another boot, `boot_id`."""
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
"""By the name that the API gives it; other names of the API's catalogue are refused."""
