"""Counts lines of the journal like node-problem-detector's log-counter, but by their true writer.

The writer is taken from fields that journald sets itself, so a container that prints lines of the
kernel or systemd is not counted. Patterns are matched by RE2, line by line.
"""

from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.detectors.checks.programs import Ran
from agent.host import HostError
from agent.host.files import HostRoot
from agent.programs import started
from kubenode.runtime.clock import Clock
from kubenode.runtime.duration import seconds


@dataclass(frozen=True, slots=True)
class Counter:
    """Arguments of log-counter.

    source: as in `--journald-source`: kernel, systemd, or a program
    lookback: seconds
    delay: seconds after boot whose lines do not count
    count: number of lines that is a fault
    pattern: counts up
    revert: counts down; "" for none
    """

    source: str
    lookback: float
    delay: float
    count: int
    pattern: str
    revert: str = ""
    folder: str = ""


def read(flags: Mapping[str, str]) -> Counter:
    """Parse the flags. Raises ValueError."""
    missing = [name for name in ("journald-source", "pattern", "count") if not flags.get(name)]
    if missing:
        raise ValueError(f"log-counter needs --{' and --'.join(missing)}")
    if not flags["count"].isdecimal() or int(flags["count"]) < 1:
        raise ValueError(f"--count={flags['count']}: give 1 or more")
    delay = flags.get("delay", "0")
    return Counter(
        source=flags["journald-source"],
        lookback=seconds(flags.get("lookback", "5m")),
        delay=0.0 if delay in ("0", "0s", "0m") else seconds(delay),
        count=int(flags["count"]),
        pattern=flags["pattern"],
        revert=flags.get("revert-pattern", ""),
        folder=flags.get("log-path", ""),
    )


def origin(source: str) -> list[str]:
    """Return journalctl's matches for lines of `source`; several of one field are alternatives."""
    match source:
        case "kernel":
            return ["_TRANSPORT=kernel"]
        case "systemd":
            return ["_PID=1"]
        case _:
            return [f"_COMM={source[:15]}"]  # the kernel keeps 15 characters of a program's name


def argv(counter: Counter, since: float, files: HostRoot) -> list[str]:
    """Return the command. since: seconds since the epoch."""
    command = ["journalctl", "--quiet", "--no-pager", "--output=cat", f"--since=@{since:.0f}"]
    if counter.folder and files.is_dir(counter.folder):
        command.append(f"--directory={counter.folder}")
    return [*command, *origin(counter.source)]


class Tally:
    """Counts matching lines. Loads RE2. Raises ValueError for an invalid pattern."""

    def __init__(self, counter: Counter) -> None:
        import re2

        self.matches = 0
        try:
            self._pattern: Any = re2.compile(counter.pattern)
            self._revert: Any = re2.compile(counter.revert) if counter.revert else None
        except re2.error as error:
            raise ValueError(f"log-counter: {error}") from error

    def line(self, text: str) -> None:
        if self._revert is not None and self._revert.search(text):
            self.matches = max(0, self.matches - 1)
        if self._pattern.search(text):
            self.matches += 1


async def count(counter: Counter, clock: Clock, root: str = "/") -> Ran:
    """Count the lines; exit status 1 if the threshold is met, 0 below it."""
    now, files = clock.now().timestamp(), HostRoot(root)
    since = max(now - counter.lookback, now - uptime(root) + counter.delay)
    tally = Tally(counter)
    if since < now and (why := await _lines(argv(counter, since, files), tally, root)):
        return Ran(None, why=why)
    if tally.matches < counter.count:
        return Ran(0, "")
    met = f"Found {tally.matches} matching logs, which meets the threshold of {counter.count}"
    return Ran(1, met)


def uptime(root: str) -> float:
    """Return the seconds since boot. Raises OSError, ValueError."""
    return float(HostRoot(root).read_text("proc/uptime").split()[0])


async def _lines(command: list[str], tally: Tally, root: str) -> str:
    """Count all lines; return "" on success, else why not. The caller sets the timeout."""
    try:
        async with started(command, PIPE, root=root) as process:
            await _count(process, tally)
            code = await process.wait()
    except HostError as error:
        return str(error)
    return "" if code == 0 else f"journalctl: exit status {code}"


async def _count(process: Process, tally: Tally) -> None:
    assert process.stdout is not None
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:
            continue  # longer than any line that counts; its rest comes next
        if not line:
            return
        tally.line(line.decode(errors="replace").rstrip("\n"))
