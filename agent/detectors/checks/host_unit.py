"""Runs a program of the host as a transient unit, outside the agent's sandbox.

The agent's service has few rights, and a check that fails for lack of a right would look like a
fault. systemd also kills all processes that a check leaves behind. The runs write no lines to the
journal, which other monitors read.
"""

import itertools
import os
from collections.abc import Sequence
from typing import Any

from dbus_fast import Variant

from agent.detectors.checks.programs import DEFAULT_OUTPUT_BYTES, Ran
from agent.host import HostError
from agent.host.real import transient
from agent.host.systemd import SystemdHost
from agent.programs import DYING_SECONDS, ENVIRONMENT, Output

CANNOT_EXECUTE = 203
"""systemd's exit status for a program that cannot be executed: EXIT_EXEC of systemd.exec(5)."""
MARGIN_SECONDS = 10.0
"""Seconds that the agent waits longer than systemd."""
_SIGKILL, _ALERTS = 9, 1
_numbers = itertools.count(1)


class Unconfined:
    """Implements Runner with transient units."""

    def __init__(self, host: SystemdHost) -> None:
        self._host = host

    async def run(
        self, argv: Sequence[str], seconds: float, output_bytes: int = DEFAULT_OUTPUT_BYTES
    ) -> Ran:
        unit = f"kubenode-check-{os.getpid()}-{next(_numbers)}.service"
        given, limit = properties(argv, seconds), seconds + MARGIN_SECONDS
        with Output(output_bytes) as output:
            try:
                end = await transient.run(self._host, unit, given, limit, output=output.inlet)
            except HostError as error:
                return Ran(None, why=f"{argv[0]}: {error}")
            output.close_inlet()
            text = output.rest()
        if end.timed_out:
            return Ran(None, text, f"{argv[0]}: no result within {seconds:g} s")
        if end.code < 0:
            return Ran(None, text, f"{argv[0]}: killed by signal {-end.code}")
        if end.code == CANNOT_EXECUTE:
            return Ran(None, text, f"{argv[0]}: missing, or it cannot be executed (203)")
        return Ran(end.code, text)


def properties(argv: Sequence[str], seconds: float) -> dict[str, Variant]:
    """Return the unit's properties. Source: systemd.exec(5), systemd.service(5).

    Every exit status counts as success, so that a check that finds a fault is no failed unit.
    """
    path = argv[0]
    command = list(argv) if path.startswith("/") else ["/usr/bin/env", *argv]
    given: dict[str, tuple[str, Any]] = {
        "Description": ("s", f"KubeNode check: {path}"),
        "Type": ("s", "oneshot"),
        "CollectMode": ("s", "inactive-or-failed"),
        "AddRef": ("b", True),
        "ExecStart": ("a(sasb)", [[command[0], command, False]]),
        "Environment": ("as", [f"{name}={value}" for name, value in ENVIRONMENT.items()]),
        "SuccessExitStatus": ("(aiai)", [list(range(1, 256)), []]),
        "TimeoutStartUSec": ("t", int(seconds * 1_000_000)),
        "TimeoutStopUSec": ("t", int(DYING_SECONDS * 1_000_000)),
        "KillMode": ("s", "control-group"),
        "KillSignal": ("i", _SIGKILL),
        "LogLevelMax": ("i", _ALERTS),
        "StandardInput": ("s", "null"),
        "StandardError": ("s", "null"),
    }
    return {name: Variant(kind, value) for name, (kind, value) in given.items()}
