"""The `params` that each action of the agent accepts, for lint, the agent and the docs.

The CRD has params as plain strings, because a schema for each action would not fit into it. The
agent refuses params that do not match this table, whoever created the job; `kubenode rules lint`
reports them earlier.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

QUANTITY = r"[1-9][0-9]{0,11}(Ki|Mi|Gi)?"
DURATION = r"([0-9]{1,6}(ms|s|m|h)){1,3}"
MODULE = r"[a-z0-9_][a-z0-9_-]{0,63}"
CLEANED = (
    *("images", "imagesInUse", "exitedContainers", "containerLogs"),
    *("journal", "logs", "crashDumps"),
)
"""Targets of CleanDisk."""
UNITS = (
    *("kubelet.service", "kube-proxy.service"),
    *("containerd.service", "crio.service", "docker.service", "docker.socket"),
    *("cri-docker.service", "cri-docker.socket"),
    *("chrony.service", "chronyd.service", "ntp.service", "ntpd.service", "ntpsec.service"),
    "systemd-timesyncd.service",
    *("systemd-networkd.service", "systemd-resolved.service"),
    *("NetworkManager.service", "networking.service"),
    *("node-problem-detector.service", "nvidia-fabricmanager.service", "nvidia-dcgm.service"),
)
"""Default of the agent's `repairs.units` and `repairs.stop_units`."""


def is_listed_unit(unit: str, listed: Sequence[str]) -> bool:
    """Return whether an entry of `listed`, which may be a pattern with `*`, matches the unit."""
    return any(fnmatchcase(unit, entry) for entry in listed)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an action.

    pattern: regular expression that the whole value must match
    form: what to write, for people
    about: what it does, for people
    """

    pattern: str
    form: str
    about: str
    required: bool = False


Parameters = Mapping[str, Parameter]

_PROCESS: Parameters = {
    "pid": Parameter("[1-9][0-9]{0,8}", "a process ID", "the process", required=True),
    "startTime": Parameter(
        "[0-9]{1,19}",
        "field 22 of /proc/PID/stat",
        "its start in clock ticks after the boot: with the PID it names one process for ever",
        required=True,
    ),
    "exe": Parameter("/[^\\x00]{1,1000}", "a full path", "its program, as /proc/PID/exe has it"),
    "unit": Parameter(
        r"[A-Za-z0-9:_.@\\-]{1,247}\.(service|scope)", "a unit name", "the unit it belongs to"
    ),
    "signal": Parameter("TERM|KILL", "TERM or KILL", "default TERM"),
}
_DISK: Parameters = {
    "target": Parameter(
        "|".join(CLEANED), f"one of {', '.join(CLEANED)}", "what goes", required=True
    ),
    "free": Parameter(
        "[1-9]|[1-8][0-9]|90",
        "1 to 90",
        "percent of the file system: once so much is free it stops; default 20",
    ),
    "most": Parameter(QUANTITY, "bytes, such as 2Gi", "most that may go at once; default 10Gi"),
    "keep": Parameter(QUANTITY, "bytes, such as 256Mi", "journal that stays; default 256Mi"),
    "olderThan": Parameter(
        DURATION, "a duration such as 1h", "files and containers that are younger stay; default 1h"
    ),
}
PARAMETERS: Mapping[str, Parameters] = {
    "RestartUnit": {},
    "StartUnit": {},
    "StopUnit": {},
    "ReloadUnit": {},
    "KillProcess": _PROCESS,
    "CleanDisk": _DISK,
    "SyncTime": {
        "step": Parameter(
            "Auto|Never",
            "Auto or Never",
            "Auto sets a clock that is far off at once, unless etcd runs here; Never only slews",
        )
    },
    "RestartNetwork": {
        "within": Parameter(
            DURATION,
            "a duration such as 20s",
            "how soon the API server must be reached again, 5s to 5m; default 20s",
        )
    },
    "RemountFilesystem": {
        "mountPoint": Parameter(
            "/[^\\x00]{0,1000}", "a full path", "a mount point that the agent lists", required=True
        )
    },
    "LoadModule": {
        "name": Parameter(MODULE, "a module name", "one that the agent lists", required=True)
    },
    "ReloadModule": {
        "name": Parameter(MODULE, "a module name", "one that the agent lists", required=True)
    },
    "SetSysctl": {
        "name": Parameter(
            r"[a-z0-9_]+(\.[a-zA-Z0-9_-]+){1,6}", "a name such as fs.file-max", "", required=True
        ),
        "value": Parameter("[0-9]{1,15}", "a number", "the new value"),
        "factor": Parameter(
            r"[1-4](\.[0-9]{1,3})?", "1 to 4.999", "times the present value, instead of `value`"
        ),
    },
    "DeleteSandbox": {
        "id": Parameter("[0-9a-f]{64}", "64 hex digits", "one pod sandbox"),
        "state": Parameter("error", "error", "instead of `id`: those that have ended, at most 16"),
    },
    "ResetGPU": {
        "gpu": Parameter(
            "GPU-[0-9a-f-]{36}|[0-9]{1,2}", "a UUID or an index", "one GPU; default: all of them"
        )
    },
    "RenewCertificate": {},
    "RepairComponent": {
        "component": Parameter(
            r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "a name", "the component", required=True
        )
    },
    "RunCheck": {},
}
"""Parameters by action. RunScript is missing: the agent's configuration has those of scripts."""
_EXCLUSIVE_PARAMETERS = {"SetSysctl": ("value", "factor"), "DeleteSandbox": ("id", "state")}
_REQUIRED_ALTERNATIVES = {"KillProcess": ("exe", "unit")}


def complaint(action: str, params: Mapping[str, str]) -> str:
    """Return why `params` do not fit `action`, with field, value and remedy; "" if they do."""
    known = PARAMETERS.get(action)
    if known is None:
        return ""
    for name, value in params.items():
        if name not in known:
            takes = ", ".join(known) or "no parameters"
            return f"{action}: params.{name} is unknown: it takes {takes}"
        if not re.fullmatch(known[name].pattern, value):
            return f"{action}: params.{name} {value!r} does not fit: write {known[name].form}"
    for name, parameter in known.items():
        if parameter.required and name not in params:
            return f"{action}: params.{name} is missing: give {parameter.form}"
    exclusive = _EXCLUSIVE_PARAMETERS.get(action, ())
    if exclusive and sum(name in params for name in exclusive) != 1:
        return f"{action}: give one of params.{' and params.'.join(exclusive)}"
    some = _REQUIRED_ALTERNATIVES.get(action, ())
    if some and not any(name in params for name in some):
        return f"{action}: give params.{' or params.'.join(some)}: a PID alone names nobody"
    return ""


_UNITS = {"": 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


def quantity(text: str) -> int:
    """Return the bytes of a text that matches QUANTITY."""
    number = text.rstrip("KMGi")
    return int(number) * _UNITS[text[len(number) :]]
