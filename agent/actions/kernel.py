"""LoadModule, ReloadModule and SetSysctl: change the kernel's settings, from allow lists only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.actions.repair import STANDS, Repair, params_of, ports_of
from agent.host import Contraindicated, HostError
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench


class LoadModule(Repair):
    name = "LoadModule"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        module = _listed(self.name, request, bench.allowed.load_modules, "load_modules")
        return {"module": module}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        kernel, module = ports_of(bench).kernel, before["module"]
        if await kernel.module(module) is not None:
            return done(f"LoadModule: {module} was loaded before")
        await kernel.load(module)
        if await kernel.module(module) is None:
            return failed(f"LoadModule: {module} is not there after it was loaded")
        return done(f"LoadModule: {module} is loaded, until the next boot")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        if await ports_of(bench).kernel.module(before["module"]) is None:
            return None
        return done(f"LoadModule: {before['module']} is loaded{STANDS}")


class ReloadModule(Repair):
    """Unloads and loads a module that is not in use; otherwise disk or network could fail."""

    name = "ReloadModule"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        name = _listed(self.name, request, bench.allowed.reload_modules, "reload_modules")
        module = await ports_of(bench).kernel.module(name)
        if module is None:
            raise Contraindicated(f"ReloadModule: {name} is not loaded: use LoadModule")
        if module.users or module.holders:
            by = f", by {', '.join(module.holders)}" if module.holders else ""
            raise Contraindicated(
                f"ReloadModule: {name} is in use ({module.users} times{by}): move its users first"
            )
        return {"module": name}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        kernel, module = ports_of(bench).kernel, before["module"]
        await kernel.unload(module)
        await kernel.load(module)
        if await kernel.module(module) is None:
            return failed(f"ReloadModule: {module} was taken out and did not come back")
        return done(f"ReloadModule: {module} was taken out and loaded again")


def _listed(action: str, request: StepRequest, listed: list[str], setting: str) -> str:
    name = params_of(request)["name"].replace("-", "_")  # the kernel treats both alike
    if name not in (known.replace("-", "_") for known in listed):
        raise Contraindicated(
            f"{action}: {name} is not in repairs.{setting} of the agent's configuration, which has"
            f" {', '.join(listed) or 'nothing'}"
        )
    return name


@dataclass(frozen=True, slots=True)
class SysctlBound:
    """Bounds of a sysctl.

    low, high: least and greatest value
    each: bytes of kernel memory for each unit of the value; together at most a tenth of the memory
    """

    low: int
    high: int
    each: int = 0


SYSCTLS: Mapping[str, SysctlBound] = {
    "fs.aio-max-nr": SysctlBound(65536, 4_194_304),
    "fs.file-max": SysctlBound(8192, 26_234_859),
    "fs.inotify.max_queued_events": SysctlBound(16384, 1_048_576),
    "fs.inotify.max_user_instances": SysctlBound(128, 65536),
    "fs.inotify.max_user_watches": SysctlBound(8192, 4_194_304),
    "fs.nr_open": SysctlBound(1024, 1_073_741_816),
    "kernel.pid_max": SysctlBound(32768, 4_194_304),
    "kernel.threads-max": SysctlBound(4096, 4_194_304, 8192),
    "kernel.keys.maxkeys": SysctlBound(200, 65536),
    "net.bridge.bridge-nf-call-ip6tables": SysctlBound(1, 1),
    "net.bridge.bridge-nf-call-iptables": SysctlBound(1, 1),
    "net.core.netdev_max_backlog": SysctlBound(1000, 65536),
    "net.core.somaxconn": SysctlBound(128, 65535),
    "net.ipv4.ip_forward": SysctlBound(1, 1),
    "net.ipv4.neigh.default.gc_thresh1": SysctlBound(128, 65536, 400),
    "net.ipv4.neigh.default.gc_thresh2": SysctlBound(512, 131_072, 400),
    "net.ipv4.neigh.default.gc_thresh3": SysctlBound(1024, 262_144, 400),
    "net.ipv4.tcp_max_syn_backlog": SysctlBound(128, 65536),
    "net.ipv6.conf.all.forwarding": SysctlBound(1, 1),
    "net.ipv6.neigh.default.gc_thresh3": SysctlBound(1024, 262_144, 400),
    "net.netfilter.nf_conntrack_max": SysctlBound(65536, 4_194_304, 320),
    "vm.max_map_count": SysctlBound(65530, 2_097_152),
}
"""Limits that a node outgrows, and switches that Kubernetes needs.

Values are only raised: a lower limit would break what runs.
"""
MEMORY_SHARE = 10


class SetSysctl(Repair):
    name = "SetSysctl"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        params, kernel = params_of(request), ports_of(bench).kernel
        name = params["name"]
        bound = SYSCTLS.get(name)
        if bound is None:
            raise Contraindicated(
                f"SetSysctl: {name} is none of those that may be set: {', '.join(SYSCTLS)}"
            )
        text = (await kernel.sysctl(name)).strip()
        if not text.isdecimal():
            raise Contraindicated(f"SetSysctl: {name} is {text!r}, which is no number")
        value = wanted(int(text), params)
        if why := explain_refusal(int(text), value, bound, await kernel.memory()):
            raise Contraindicated(f"SetSysctl: {name} is {text}, asked for {value}: {why}")
        return {"name": name, "was": text, "to": str(value)}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        kernel, name, was, to = ports_of(bench).kernel, before["name"], before["was"], before["to"]
        if was == to:
            return done(f"SetSysctl: {name} was {to} before")
        await kernel.set_sysctl(name, to)
        if (now := (await kernel.sysctl(name)).strip()) != to:
            try:
                await kernel.set_sysctl(name, was)
            except HostError as error:
                return failed(f"SetSysctl: {name} reads {now}, not {to}; back to {was}: {error}")
            return failed(f"SetSysctl: {name} reads {now}, not {to}; set back to {was}")
        return done(f"SetSysctl: {name} is {to}, was {was}; it holds until the next boot")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        now = (await ports_of(bench).kernel.sysctl(before["name"])).strip()
        if now != before["to"]:
            return None
        return done(f"SetSysctl: {before['name']} is {now}, was {before['was']}{STANDS}")


def wanted(now: int, params: Mapping[str, str]) -> int:
    if "value" in params:
        return int(params["value"])
    return int(now * float(params["factor"]))


def explain_refusal(now: int, value: int, bound: SysctlBound, memory: int) -> str:
    """Describe why the value must not be set; "" if it may be."""
    if value == now:
        return ""
    if value < now:
        return "a limit is only raised here"
    if not bound.low <= value <= bound.high:
        return f"from {bound.low} to {bound.high} is allowed"
    if value * bound.each > memory // MEMORY_SHARE:
        return f"it could take {value * bound.each} bytes, a tenth of the memory is allowed"
    return ""
