"""Selects an agent's detectors: configured monitors, packs of log patterns, built-in checks.

A condition has one owner. A configured monitor has precedence over built-in detectors.
"""

import glob
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from agent.detectors import CONFIG_INVALID, Detector, EventReport, EventSeverity, Sink
from agent.detectors.checks.assembly import builtins, runner
from agent.detectors.checks.detector import Turns
from agent.detectors.checks.npd import config
from agent.detectors.checks.npd.builtin import BuiltIns
from agent.detectors.checks.npd.monitor import PluginMonitor
from agent.detectors.logs.assembly import build as build_logs
from agent.detectors.settings import Detectors
from agent.host import Host
from agent.host.files import OWN_FILES, HostRoot
from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever

LOG_PLUGINS = ("kmsg", "journald", "filelog")
OWN_FOLDER = "/etc/kubenode/"

log = logging.getLogger(__name__)


def detectors(
    given: Detectors, host: Host, clock: Clock, root: str = "/", state_dir: str = ""
) -> list[Detector]:
    """Return the detectors. A file that cannot be used is reported as an Event; the others run.

    state_dir: where the log detector stores its state; "": nowhere
    """
    files, complaints = read(given.npd_configs, HostRoot(root))
    check_turns, programs, run = Turns(clock), Turns(clock), runner(host, root)
    enabled: list[Detector] = []
    owners: dict[str, str] = {}
    for file, data in files.items():
        if data.get("plugin") in LOG_PLUGINS:
            continue
        try:
            monitor = config.read(file, data)
            claim(owners, file, [condition.type for condition in monitor.conditions])
        except config.PluginConfigError as error:
            complaints.append(str(error))
            continue
        own = BuiltIns(host, clock, root)
        enabled.append(PluginMonitor(monitor, programs, own, run, HostRoot(root)))
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
        enabled.append(logs)
    taken = owners.keys() | set(logs.conditions)
    enabled += builtins(given, host, check_turns, taken, root)
    return [*enabled, Complaints(complaints, clock)] if complaints else enabled


def claim(owners: dict[str, str], file: str, conditions: Sequence[str]) -> None:
    """Set the owner of the conditions. Raises PluginConfigError if one of them has an owner."""
    for kind in conditions:
        if (other := owners.get(kind)) is not None:
            raise config.PluginConfigError(
                f"{file}: condition {kind} is kept by {other}: leave one of the files out"
            )
    owners.update(dict.fromkeys(conditions, file))


def read(patterns: Sequence[str], host: HostRoot) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Return the content of each monitor's file by path, and what is wrong with other files.

    patterns: paths of the host; those below OWN_FOLDER are the agent's own, as of a Pod's ConfigMap
    """
    monitors: dict[str, Mapping[str, Any]] = {}
    complaints = []
    for pattern in patterns:
        files = OWN_FILES if pattern.startswith(OWN_FOLDER) else host
        paths = files.glob(pattern)
        if not paths and not glob.has_magic(pattern):
            complaints.append(f"{pattern}: no such file; put it there or take it off npd_configs")
        for path in paths:
            try:
                monitors[path] = _monitor(files.read_bytes(path))
            except OSError as error:
                complaints.append(f"{path}: {error.strerror}")
            except ValueError as error:
                complaints.append(f"{path}: {error}")
    return monitors, complaints


def _monitor(content: bytes) -> Mapping[str, Any]:
    """Parse one monitor's file. Raises ValueError."""
    try:
        data = json.loads(content)
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from error
    kinds = (config.PLUGIN, *LOG_PLUGINS)
    if not isinstance(data, dict) or data.get("plugin") not in kinds:
        raise ValueError(f"no monitor of a known kind: `plugin` must be one of {', '.join(kinds)}")
    return data


class Complaints:
    """Implements Detector: reports at its start which files are not used, and why."""

    name = "detector-config"
    conditions: tuple[str, ...] = ()

    def __init__(self, complaints: Sequence[str], clock: Clock) -> None:
        self.complaints, self._clock = tuple(complaints), clock

    async def run(self, sink: Sink) -> None:
        for why in self.complaints:
            log.warning("a detector's file is not used", extra={"why": why})
            now = self._clock.now()
            sink.report(EventReport(CONFIG_INVALID, why, EventSeverity.WARNING, now, self.name))
        await forever()
