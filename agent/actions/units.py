"""RestartUnit, StartUnit, StopUnit, ReloadUnit: run a systemd job on one unit and prove it."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.host import Contraindicated, Unit, UnitVerb
from agent.outcome import StepOutcome, boot_cut, done, failed
from agent.request import StepRequest
from kubenode.runtime.agentparams import is_listed_unit

if TYPE_CHECKING:
    from agent.actions import Bench

POLL_SECONDS = 0.1
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,247}\.(service|socket|timer|target|mount|path)")
"""Unit names as in the API's schema. No globs: one name is one unit."""
_ENDS_THE_BOOT = re.compile(
    r"(reboot|soft-reboot|poweroff|halt|kexec|shutdown|exit|rescue|emergency|suspend|hibernate"
    r"|hybrid-sleep|sleep|suspend-then-hibernate|umount|final|ctrl-alt-del)\.target"
    r"|systemd-(reboot|soft-reboot|poweroff|halt|kexec|suspend|hibernate|hybrid-sleep"
    r"|suspend-then-hibernate)\.service|(rescue|emergency)\.service"
)
"""Units that end the boot. The step `reboot` has a permit and a proof, and must be used instead."""
_NEVER_STOPPED = frozenset(
    {"kubenode-agent.service", "dbus.service", "dbus.socket", "dbus-broker.service"}
)
"""Units that could not be started again after a stop."""


class UnitAction:
    """Runs one verb on the unit that the step names."""

    announced = False

    def __init__(self, verb: UnitVerb) -> None:
        self.verb = verb

    def unfit(self, request: StepRequest) -> str:
        unit = request.step.unit if request.step else None
        if not unit or not _UNIT.fullmatch(unit):
            return f"{self.verb}: unit {unit!r} is no unit name; write it like kubelet.service"
        if _ENDS_THE_BOOT.fullmatch(unit):
            return f"{self.verb}: {unit} ends the boot: use the step `reboot`"
        if self.verb is UnitVerb.STOP and unit in _NEVER_STOPPED:
            return f"{self.verb}: without {unit} this agent could do nothing more"
        return ""

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        assert request.step is not None and request.step.unit is not None
        name = request.step.unit
        setting = "stop_units" if self.verb is UnitVerb.STOP else "units"
        listed = bench.allowed.stop_units if setting == "stop_units" else bench.allowed.units
        if not is_listed_unit(name, listed):
            raise Contraindicated(
                f"{self.verb}: {name} is not in repairs.{setting} of the agent's configuration,"
                f" which has {', '.join(listed) or 'nothing'}"
            )
        unit = await bench.host.unit(name)
        return {"unit": unit.name, "active": unit.active, "invocation": unit.invocation}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        name = before["unit"]
        end = bench.clock.monotonic() + limit
        if self.verb in (UnitVerb.RESTART, UnitVerb.START):
            await bench.host.reset_failed(name)  # otherwise the start limit applies
        await bench.host.unit_job(self.verb, name, max(0.1, limit - bench.settle))
        unit = await self._settled(name, end, bench)
        if self._stands(unit, before, job_done=True):
            return done(f"{self.verb}: {unit}")
        return failed(f"{self.verb}: {unit}", unit.exit_status or 1)

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        if self.verb is UnitVerb.RELOAD:
            return None  # a reload leaves no trace that could be compared
        unit = await self._settled(before["unit"], bench.clock.monotonic() + limit, bench)
        if self._stands(unit, before, job_done=False):
            return done(f"{self.verb}: {unit}; the agent was interrupted, the result stands")
        return None

    def after_boot(self, boot_id: str) -> StepOutcome:
        return failed(boot_cut(boot_id))

    def _stands(self, unit: Unit, before: Mapping[str, str], *, job_done: bool) -> bool:
        """Return whether the unit is in the state that the verb requests.

        job_done: systemd reported the job as done. Otherwise only a changed invocation proves a
            start. It is "" for a unit that is inactive and not failed, because systemd unloads such
            a unit.
        """
        fresh = job_done or bool(unit.invocation and unit.invocation != before["invocation"])
        up = unit.active == "active"
        ran = unit.oneshot and unit.active == "inactive" and unit.result == "success"
        match self.verb:
            case UnitVerb.STOP:
                return unit.active in ("inactive", "failed")
            case UnitVerb.RESTART:
                return fresh and (up or ran)
            case UnitVerb.START:
                return up or (fresh and ran)
            case UnitVerb.RELOAD:
                return up

    async def _settled(self, name: str, end: float, bench: "Bench") -> Unit:
        """Return the unit once it is stable for the settle time, or as it is at `end`.

        systemd reports a job as done even if the service dies right after its start. This detects
        it.
        """
        clock = bench.clock
        unit = await bench.host.unit(name)
        since = clock.monotonic()
        while clock.monotonic() < end:
            stopped = unit.active in ("inactive", "failed")
            if unit.settled and (stopped or clock.monotonic() - since >= bench.settle):
                break
            await clock.sleep(min(POLL_SECONDS, max(0.01, bench.settle)))
            now = await bench.host.unit(name)
            if (now.active, now.invocation) != (unit.active, unit.invocation):
                since = clock.monotonic()
            unit = now
        return unit
