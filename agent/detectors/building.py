"""Which detectors an agent runs: those of the monitors that its settings name, those of the agent's
own pack of log patterns, and the built-in checks.

A condition has one owner. A configured monitor goes before what is built in.
"""

import glob
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.detectors import Detector
from agent.detectors.checks.asking import Turns
from agent.detectors.checks.building import builtins
from agent.detectors.checks.npd import config
from agent.detectors.checks.npd.builtin import BuiltIns
from agent.detectors.checks.npd.monitor import PluginMonitor
from agent.detectors.logs.building import build as build_logs
from agent.detectors.settings import Detectors
from agent.host import Host
from kubenode.runtime.clock import Clock
from kubenode.runtime.process import CannotStart

LOG_PLUGINS = ("kmsg", "journald", "filelog")


class DetectorError(CannotStart):
    """One line per complaint."""


def detectors(
    given: Detectors, host: Host, clock: Clock, root: str = "/", state_dir: str = ""
) -> list[Detector]:
    """Raises DetectorError for files that cannot be used; one for logs is left out and told.

    state_dir  where what logs said is remembered; "" is nowhere
    """
    files = read(given.npd_configs)
    looks, programs = Turns(clock), Turns(clock)
    found: list[Detector] = []
    owners: dict[str, str] = {}
    complaints = []
    for file, data in files.items():
        if data.get("plugin") in LOG_PLUGINS:
            continue
        try:
            monitor = config.read(file, data)
        except config.ConfigError as error:
            complaints.append(str(error))
            continue
        for condition in monitor.conditions:
            if (other := owners.setdefault(condition.type, file)) != file:
                complaints.append(
                    f"{file}: condition {condition.type} is kept by {other} too: leave one out"
                )
        found.append(PluginMonitor(monitor, programs, BuiltIns(host, clock, root)))
    if complaints:
        raise DetectorError("\n".join(complaints))
    logs = build_logs(
        {file: data for file, data in files.items() if data.get("plugin") in LOG_PLUGINS},
        given.logs,
        clock,
        boot_id=host.boot_id(),
        state_dir=state_dir,
        root=root,
        taken=owners.keys(),
    )
    if logs.conditions or logs.complaints:
        found.append(logs)
    taken = owners.keys() | set(logs.conditions)
    return [*found, *builtins(given, host, looks, taken, root)]


def read(patterns: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The content of each file, by path. Raises DetectorError."""
    found: dict[str, Mapping[str, Any]] = {}
    complaints = []
    for pattern in patterns:
        paths = sorted(glob.glob(pattern))
        if not paths and not glob.has_magic(pattern):
            complaints.append(f"detectors.npd_configs {pattern}: no such file; put it there")
        for path in paths:
            try:
                data = json.loads(Path(path).read_bytes())
            except OSError as error:
                complaints.append(f"detectors.npd_configs {path}: {error.strerror}")
                continue
            except ValueError as error:
                complaints.append(f"detectors.npd_configs {path}: is no JSON: {error}")
                continue
            if not isinstance(data, dict) or data.get("plugin") not in (
                config.PLUGIN,
                *LOG_PLUGINS,
            ):
                known = ", ".join((config.PLUGIN, *LOG_PLUGINS))
                complaints.append(
                    f"detectors.npd_configs {path}: no monitor of a known kind: "
                    f"`plugin` must be one of {known}"
                )
                continue
            found[path] = data
    if complaints:
        raise DetectorError("\n".join(complaints))
    return found
