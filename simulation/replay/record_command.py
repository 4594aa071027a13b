"""`kubenode record`: records the changes of a cluster's nodes, so that rules can be replayed on
them.

The recording begins with the existing objects and continues with every change, as JSON lines of
timeline entries. The command only reads: it lists and watches nodes, events, hostevents and
hostprobes, and lists pods for Events about volumes. A file is complete or absent: the command
writes a temporary file and renames it at the end, even after an interrupt.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import zstandard

from kubenode.api.v1alpha1 import HostEvent, HostProbe
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal, say
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from remedy.remedier.event_sources import NodeEventSources
from simulation.replay.recorder import Recorder
from simulation.replay.timeline import Entry

STDOUT = "-"
PARTIAL = ".partial"
MOST_BYTES = 4 << 30
"""Bytes of uncompressed text: some weeks of a thousand nodes."""
LIST_SECONDS = 120.0
FLUSH_SECONDS = 5.0


async def command(
    kubeconfig: str | None, context: str | None, *, out: str, lasts: timedelta | None
) -> Exit:
    """Record until interrupted. Raises Refusal for a file that cannot be written.

    out: a file, compressed if its name ends in `.zst`; `-` for standard output.
    lasts: the duration of the recording; None for no limit.
    """
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        with opened(out) as file, _interrupted() as stop:
            written = RecordingWriter(file)
            await record(kube, written, kube.clock, lasts, stop)
    what = f"{written.entries} entries, {written.bytes} bytes"
    say(f"recorded {what}{'' if out == STDOUT else f' in {out}'}")
    return Exit.FINE


class RecordingFull(Exception):
    """The recording has reached its largest size."""


class RecordingSink(Protocol):
    def write(self, data: bytes, /) -> Any: ...
    def flush(self) -> Any: ...


class RecordingWriter:
    """Writes entries as lines, and counts entries and bytes."""

    def __init__(self, file: RecordingSink, most: int = MOST_BYTES) -> None:
        self._file, self._most = file, most
        self.entries = self.bytes = 0

    def add(self, entries: Iterable[Entry]) -> None:
        """Write the entries. Raises RecordingFull if the recording would become too large."""
        for entry in entries:
            line = entry.line().encode() + b"\n"
            if self.bytes + len(line) > self._most:
                raise RecordingFull
            self._file.write(line)
            self.entries, self.bytes = self.entries + 1, self.bytes + len(line)

    def flush(self) -> None:
        self._file.flush()


async def record(
    kube: Kube, written: RecordingWriter, clock: Clock, lasts: timedelta | None, stop: asyncio.Event
) -> None:
    """Record until `stop` is set, `lasts` has passed, or the recording is full."""
    recorder = Recorder()
    nodes: Informer[Node] = Informer(kube, paths.nodes(), structs(Node), clock=clock)
    events = NodeEventSources(kube, clock)
    host_events: Informer[HostEvent] = Informer(
        kube, paths.custom(HostEvent.resource.plural), HostEvent.from_server, clock=clock
    )
    probes: Informer[HostProbe] = Informer(
        kube, paths.custom(HostProbe.resource.plural), HostProbe.from_server, clock=clock
    )

    failed: list[OSError] = []

    def take(entries: Iterable[Entry]) -> None:
        if stop.is_set():
            return
        try:
            written.add(entries)
        except RecordingFull:
            say(f"the recording is full: {written.bytes} bytes; it ends here")
            stop.set()
        except OSError as error:
            failed.append(error)
            stop.set()

    informers: tuple[Informer[Any], ...] = (nodes, *events.informers, host_events, probes)
    async with _running(informers, events.attach.controller.run):
        take(recorder.begin(clock.now()))
        # A new handler first gets the existing objects: the order here is that of the recording.
        nodes.add_handler(lambda name, old, new: take(recorder.node(name, old, new, clock.now())))
        events.add_handler(lambda _, old, new: take(recorder.event(new, clock.now())))
        host_events.add_handler(
            lambda _, old, new: take(recorder.host_event(old, new, clock.now()))
        )
        probes.add_handler(lambda _, old, new: take(recorder.probe(old, new, clock.now())))
        end = None if lasts is None else clock.monotonic() + lasts.total_seconds()
        while not stop.is_set():
            written.flush()  # existing objects first: a reader sees that we record
            remaining = FLUSH_SECONDS if end is None else end - clock.monotonic()
            if remaining <= 0:
                break
            await wait(clock, stop, min(remaining, FLUSH_SECONDS))
        if not failed:
            with suppress(RecordingFull):
                written.add(recorder.end(clock.now()))
    if failed:
        raise Refusal(f"the recording cannot be written: {failed[0]}") from failed[0]


@asynccontextmanager
async def _running(
    informers: Iterable[Informer[Any]], *others: Callable[[], Coroutine[Any, Any, None]]
) -> AsyncIterator[None]:
    """Run `informers` and `others` until the block ends. The block begins when all have listed."""
    async with asyncio.TaskGroup() as tasks:
        parts = (*(informer.run for informer in informers), *others)
        running = [tasks.create_task(part()) for part in parts]
        try:
            try:
                async with asyncio.timeout(LIST_SECONDS):
                    for informer in informers:
                        await informer.synced.wait()
            except TimeoutError as error:
                late = ", ".join(i.path for i in informers if not i.synced.is_set())
                text = f"the cluster did not list {late} in {LIST_SECONDS:.0f} s"
                raise Refusal(text, Exit.UNREACHABLE) from error
            yield
        finally:
            for task in running:
                task.cancel()


@contextmanager
def _interrupted() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set; within the block they do not end the process."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    ours = (signal.SIGINT, signal.SIGTERM)
    for each in ours:
        loop.add_signal_handler(each, stop.set)
    try:
        yield stop
    finally:
        for each in ours:
            loop.remove_signal_handler(each)


@contextmanager
def opened(out: str) -> Iterator[RecordingSink]:
    """Yield the sink of lines. The file gets its name if the block ends without an error."""
    if out == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(out)
    partial = path.with_name(path.name + PARTIAL)
    try:
        file = partial.open("wb")
    except OSError as error:
        text = f"{out}: cannot be written: {error.strerror}; name another place"
        raise Refusal(text, Exit.USAGE) from error
    try:
        with file, _packed(file, path) as sink:
            yield sink
        with partial.open("rb") as whole:
            os.fsync(whole.fileno())
        partial.replace(path)
    except BaseException:  # also an interrupt: keep no partial recording
        with suppress(OSError):
            partial.unlink()
        raise


@contextmanager
def _packed(file: BinaryIO, path: Path) -> Iterator[RecordingSink]:
    if path.suffix != ".zst":
        yield file
        return
    with zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False) as packed:
        yield packed
