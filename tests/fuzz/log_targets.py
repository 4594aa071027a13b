"""What reads logs, fed with any bytes: nothing is raised, and what is kept stays bounded.

Each target takes bytes. Hypothesis feeds them for a moment in every CI run
(tests/unit/agent/logs/test_fuzz_targets.py), atheris for as long as it is told to
(tests/fuzz/run.py).
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from support.clock import FakeClock

from agent.detectors.logs import gotime
from agent.detectors.logs.entry import decode, line_of
from agent.detectors.logs.kmsg import KmsgSource, parse
from agent.detectors.logs.line import KERNEL, LONGEST, MANAGER, Line
from agent.detectors.logs.npd import read_npd
from agent.detectors.logs.pack import ConfigError, build_pack, our_program, read_pack
from agent.detectors.logs.program import Program, join
from agent.detectors.logs.splitter import Splitter
from agent.detectors.logs.state import FAULTS, State
from agent.detectors.logs.timeouts import due, pass_time, questions
from agent.detectors.logs.watch import KEYS, begin, looked, watch

NOW = datetime(2026, 1, 10, 10, 0, 30, tzinfo=UTC)
PROGRAM = our_program()
ORIGINS = sorted({o for m in PROGRAM.monitors for o in m.selector.origins} | {KERNEL, MANAGER, ""})
PIECES = 50


class Ignoring:
    """Implements Hearer."""

    def lines(self, source: str, lines: Sequence[Line]) -> None:
        pass

    def caught_up(self, source: str) -> None:
        pass

    def lost(self, source: str, what: str) -> None:
        assert len(what) < 500

    def broken(self, source: str, why: str) -> None:
        pass


def kmsg(data: bytes) -> None:
    """Records of /dev/kmsg, alone and as a stream."""
    record = parse(data)
    assert record is None or len(record.text) <= LONGEST
    source = KmsgSource(FakeClock(NOW), uptime=lambda: 100.0)
    for line in source.took(data, Ignoring(), NOW):
        assert len(line.text) <= LONGEST


def journal(data: bytes) -> None:
    """Entries as journalctl writes them."""
    for raw in data.split(b"\n")[:PIECES]:
        with suppress(ValueError):
            line = line_of(decode(raw), "boot")
            assert line is None or len(line.text) <= LONGEST


def splitting(data: bytes) -> None:
    """The same lines, however the bytes are cut; no more kept than allowed."""
    longest = 1 + (data[0] if data else 0)
    whole, parts = Splitter(longest), Splitter(longest)
    at_once = whole.feed(data)
    step = 1 + len(data) // PIECES
    by_part = [line for n in range(0, len(data), step) for line in parts.feed(data[n : n + step])]
    assert at_once == by_part
    assert max(whole.pending, parts.pending) <= longest


def watching(data: bytes) -> None:
    """Lines of any writer into our whole program; the first byte of each chooses the writer."""
    _feed(PROGRAM, [chunk for chunk in data.split(b"\0") if chunk][:PIECES])


def npd_config(data: bytes) -> None:
    """A file of node-problem-detector: read, or refused with complaints; then it takes lines."""
    try:
        decoded = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        monitor = read_npd("f", decoded)
    except ConfigError as error:
        assert str(error).startswith("f: ")
        return
    _feed(join([monitor.part]), [b"\x01a line", b"\x01another"])
    if monitor.translator is not None:
        monitor.translator.translate("Jan 10 09:59:58 h kernel: [1.0] x", "/x", NOW)


def pack(data: bytes) -> None:
    """A pack of a site: read, or refused with a complaint."""
    text = data.decode(errors="replace")
    with suppress(ConfigError):
        _feed(join([build_pack("p", read_pack("p", text))]), [b"\x01a line"])


def times(data: bytes) -> None:
    """A layout and a time in it, parted by the first line break."""
    layout, _, text = data.decode(errors="replace").partition("\n")
    with suppress(ValueError):
        assert gotime.parser(layout)(text, NOW).tzinfo is not None


def _feed(program: Program, chunks: Sequence[bytes]) -> None:
    now = NOW
    state, _ = begin(program, now)
    state, _ = looked(program, state, program.conditions, now)
    for chunk in chunks:
        now += timedelta(seconds=chunk[0])
        origin = ORIGINS[chunk[0] % len(ORIGINS)]
        text = chunk[1:].decode(errors="replace")[:LONGEST]
        state, _ = watch(program, state, Line(text, now, origin, uid=0), now)
        state, _ = pass_time(program, state, now)
        state, _ = questions(program, state, now)
        later = due(program, state)
        assert later is None or later > now
        _bounded(state)


def _bounded(state: State) -> None:
    assert all(len(held.faults) <= FAULTS for held in state.conditions.values())
    assert len(state.counts) <= KEYS
    assert len(state.event_counts) <= KEYS + len(ORIGINS)


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one for one in (kmsg, journal, splitting, watching, npd_config, pack, times)
}
