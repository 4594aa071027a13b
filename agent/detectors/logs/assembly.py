"""Builds the log detector from this package's packs, the site's packs and
node-problem-detector's files.
"""

import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from agent.detectors.logs import memory
from agent.detectors.logs.detector import LogDetector
from agent.detectors.logs.files import FileSource, Translate
from agent.detectors.logs.journal import JournalSource
from agent.detectors.logs.kmsg import KmsgSource
from agent.detectors.logs.line import Line
from agent.detectors.logs.npd import FILELOG, JOURNALD, NpdMonitor, Translator, read_npd
from agent.detectors.logs.pack import (
    ConfigError,
    Part,
    build_pack,
    load_pack,
    read_pack,
    shipped,
    without,
)
from agent.detectors.logs.program import Monitor, Program, join
from agent.detectors.logs.recovery_checks import CHECKS
from agent.detectors.logs.routes import JOURNAL, KMSG, READER, hang_on, matches, sources_of
from agent.detectors.logs.settings import LogSettings
from agent.detectors.logs.sources import Source
from agent.host.files import HostRoot
from agent.patience import Patience
from kubenode.runtime.clock import Clock

HOST_JOURNAL = "/var/log/journal"
JOURNAL_LOOKBACK = timedelta(hours=2)
"""How far back the journal is read on the first start: the longest `quiet` of a pack."""


def build(
    files: Mapping[str, object],
    given: LogSettings,
    clock: Clock,
    *,
    boot_id: str = "",
    state_dir: str = "",
    root: str = "/",
    taken: Collection[str] = (),
) -> LogDetector:
    """Build the detector. An invalid file is left out, and reported when the detector runs.

    files: path to decoded JSON of system-log monitors
    boot_id: of this boot; without it, or without `state_dir`, no state is stored
    taken: conditions that other detectors own
    """
    complaints: list[str] = []
    folder = Path(state_dir, "detectors") if state_dir else None
    stored, wrong = memory.read(folder) if folder is not None else (memory.Memory(), "")
    if wrong:
        complaints.append(f"{wrong}: what the logs said before is forgotten")
    monitors = _npd(files, taken, complaints)
    parts = [monitor.part for monitor in monitors]
    if given.enabled:
        parts += _packs(given, taken, complaints)
    kernel = _kernel(given, HostRoot(root))
    times = _Times(clock.now(), given.lookback_seconds, stored, boot_id, kernel)
    program = times.fitted(join(parts), monitors)
    sources = _sources(program, monitors, given, clock, times, boot_id, root)
    return LogDetector(
        program,
        sources,
        hang_on(program, kernel),
        clock,
        boot_id=boot_id,
        folder=folder,
        remembered=times.memory,
        complaints=complaints,
        root=root,
        patience=Patience(most=1),
    )


def _npd(
    files: Mapping[str, object], taken: Collection[str], complaints: list[str]
) -> list[NpdMonitor]:
    monitors: list[NpdMonitor] = []
    readers: dict[str, int] = {}
    for name, content in files.items():
        try:
            npd_monitor = read_npd(name, content)
        except ConfigError as error:
            complaints += str(error).splitlines()
            continue
        monitor, conditions = npd_monitor.part
        if both := [c.type for c in conditions if c.type in taken]:
            complaints.append(f"{name}: conditions {both[0]}: another detector keeps it: "
                              "leave one out")  # fmt: skip
            continue
        if npd_monitor.plugin == FILELOG:
            number = readers[npd_monitor.log_path] = readers.get(npd_monitor.log_path, -1) + 1
            if number:
                origins = frozenset([f"{npd_monitor.log_path}{READER}{number}"])
                selector = replace(monitor.selector, origins=origins)
                npd_monitor = replace(
                    npd_monitor, part=(replace(monitor, selector=selector), conditions)
                )
        monitors.append(npd_monitor)
    return monitors


def _packs(given: LogSettings, taken: Collection[str], complaints: list[str]) -> list[Part]:
    packs = [(name, read_pack(name, text), True) for name, text in shipped()]
    for path in given.packs:
        try:
            packs.append((path, load_pack(Path(path)), False))
        except ConfigError as error:
            complaints.append(str(error))
    parts = []
    for name, pack, tested in packs:
        try:
            part = build_pack(name, without(pack, taken), tested=tested)
        except ConfigError as error:
            complaints.append(str(error))
            continue
        unknown = [c.clear.check for c in part[1] if c.clear.check not in {"", *CHECKS}]
        if unknown:
            known = ", ".join(CHECKS)
            complaints.append(f"{name}: check {unknown[0]!r}: give one of {known}")
            continue
        if given.journal or not sources_of(part[0].selector, KMSG) <= {JOURNAL}:
            parts.append(part)
    return parts


def _kernel(given: LogSettings, files: HostRoot) -> str:
    if given.kernel != "auto":
        return KMSG if given.kernel == "kmsg" else JOURNAL
    return KMSG if _readable(given.kmsg, files) or not given.journal else JOURNAL


def _readable(device: str, files: HostRoot) -> bool:
    """Return whether it is a device. In containers it may be a pipe that others read too."""
    try:
        fd = files.open_handle(device, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return stat.S_ISCHR(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


class _Times:
    """Start times of monitors. What an earlier process has read is continued where it ended."""

    def __init__(
        self, now: datetime, lookback: float, stored: memory.Memory, boot_id: str, kernel: str
    ) -> None:
        self.now, self.booted = now, now - timedelta(seconds=time.monotonic())
        self._lookback, self._kernel = timedelta(seconds=lookback), kernel
        positions = dict(stored.positions)
        if not boot_id or stored.boot_id != boot_id:
            positions.pop(KMSG, None)
        self.memory = memory.Memory(stored.boot_id, positions, stored.faults, stored.healthy)

    def fitted(self, program: Program, npd: Sequence[NpdMonitor]) -> Program:
        """Return the program with start times. node-problem-detector's monitors come first, in
        order.
        """
        made = [
            replace(monitor, since=self._since(monitor, npd[place]))
            if place < len(npd)
            else replace(monitor, events_since=self._events_since(monitor))
            for place, monitor in enumerate(program.monitors)
        ]
        return replace(program, monitors=tuple(made))

    def goes_on(self, monitor: Monitor) -> bool:
        """Return whether an earlier process read all the logs of this monitor."""
        return sources_of(monitor.selector, self._kernel) <= self.memory.positions.keys()

    def _since(self, monitor: Monitor, npd: NpdMonitor) -> datetime:
        """Return the start like node-problem-detector: not before the boot and its `delay`."""
        from_boot = self.booted + timedelta(seconds=npd.delay)
        if self.goes_on(monitor):
            return from_boot
        return max(from_boot, self.now - timedelta(seconds=npd.lookback))

    def _events_since(self, monitor: Monitor) -> datetime:
        return monitor.events_since if self.goes_on(monitor) else self.now - self._lookback


def _sources(
    program: Program,
    npd: Sequence[NpdMonitor],
    given: LogSettings,
    clock: Clock,
    times: _Times,
    boot_id: str,
    root: str,
) -> list[Source]:
    files = HostRoot(root)
    kernel = _kernel(given, files)
    wanted = {name for monitor in program.monitors for name in sources_of(monitor.selector, kernel)}
    sources: list[Source] = []
    if KMSG in wanted:
        sources.append(KmsgSource(clock, given.kmsg, files=files))
    if JOURNAL in wanted:
        back = [JOURNAL_LOOKBACK, *(timedelta(seconds=m.lookback) for m in npd)]
        since = min(times.now - max(back), times.booted if kernel == JOURNAL else times.now)
        let_through = matches(program.monitors, kernel)
        where = _where(npd)
        sources.append(
            JournalSource(clock, let_through, since, where=where, boot_id=boot_id, root=root)
        )
    readers: dict[str, list[tuple[str, Translator]]] = {}
    for monitor in npd:
        if monitor.translator is not None:
            (origin,) = monitor.part[0].selector.origins
            readers.setdefault(monitor.log_path, []).append((origin, monitor.translator))
    for path, known in readers.items():
        sources.append(FileSource(clock, path, _translate(known, times.booted), root))
    return sources


def _where(npd: Sequence[NpdMonitor]) -> str:
    """Return the journal as an option of journalctl; "" for the host's own.

    The first monitor that names another folder decides.
    """
    for monitor in npd:
        if monitor.plugin == JOURNALD and monitor.log_path not in ("", HOST_JOURNAL):
            return f"--directory={monitor.log_path}"
    return ""


def _translate(known: Sequence[tuple[str, Translator]], booted: datetime) -> Translate:
    def translate(text: str, now: datetime) -> list[Line]:
        lines = [translator.translate(text, origin, now) for origin, translator in known]
        return [
            replace(line, earlier=True) if line.at < booted else line
            for line in lines
            if line is not None
        ]

    return translate
