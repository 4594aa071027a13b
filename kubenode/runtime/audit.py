"""The audit log: acts and refusals, one JSON object per line, apart from the ordinary log.

Writing a line neither blocks nor fails an act: lines wait in a bounded queue for a thread of their
own. A slow or full disk loses lines. Lost lines are counted, reported in the ordinary log once, and
noted in the file as soon as it can be written again. docs/jobs.md describes the form of a line.
"""

import io
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry, Counter

log = logging.getLogger(__name__)

VERSION = "kubenode.io/audit/v1"
STANDARD_OUTPUT = "-"
WAITING = 10_000
"""Most lines that wait for the disk. Further lines are lost."""
ROTATE_BYTES = 64 * 2**20
BACKUP_COUNT = 4
"""Full files beside the current one. FILE.1 is the newest."""
LONGEST = 1024
"""Characters of one text in a line."""
RETRY_SECONDS = 1.0
CLOSE_SECONDS = 2.0
WRITTEN, LOST = "written", "lost"


class AuditLine(msgspec.Struct, omit_defaults=True, rename={"request_id": "requestID"}):
    """One act, one change or one refusal.

    by: part of KubeNode that reports it: remedy, defender, webhook
    who: who did it: user name at the API server, or a part of KubeNode
    what: the act: an Act of the job controller, Phase, Hold, approval or Verdict
    outcome: Done, Failed, Refused, Granted or Unknown (no answer: it may have happened)
    why: a sentence
    before, after: the old and new value as a text, never the content of an object
    """

    at: datetime
    by: str
    who: str
    what: str
    outcome: str
    why: str = ""
    job: str = ""
    node: str = ""
    request_id: str = ""
    before: str = ""
    after: str = ""
    audit: str = ""

    def encoded(self) -> bytes:
        cut = {name: value[: LONGEST - 1] + "…" for name, value in _long(self)}
        line = msgspec.structs.replace(self, audit=VERSION, **cut)
        return msgspec.json.encode(line) + b"\n"


def _long(line: AuditLine) -> list[tuple[str, str]]:
    texts = ((name, getattr(line, name)) for name in line.__struct_fields__)
    return [(name, text) for name, text in texts if isinstance(text, str) and len(text) > LONGEST]


class Audit(Protocol):
    def write(self, line: AuditLine) -> None:
        """Queue a line. Never raises, never waits."""
        ...


class Silent:
    """An Audit that discards its lines."""

    def write(self, line: AuditLine) -> None: ...


SILENT = Silent()


class AuditSink(Protocol):
    """Destination of the lines. Both methods raise OSError."""

    def put(self, raw: bytes) -> None: ...
    def close(self) -> None: ...


class StandardOutput:
    """Writes to descriptor 1 and not to sys.stdout: a thread that hangs in the lock of sys.stdout
    would keep the process from ending.
    """

    def put(self, raw: bytes) -> None:
        while raw:
            raw = raw[os.write(1, raw) :]

    def close(self) -> None: ...


class RotatedFile:
    """A file that is rotated at `rotate` bytes to `path`.1, and so on up to `path`.`backup_count`.

    It is opened at the first line, and again after an error. If somebody moved the file away, the
    next rotation at the latest creates it again.
    """

    def __init__(
        self, path: Path, rotate: int = ROTATE_BYTES, backup_count: int = BACKUP_COUNT
    ) -> None:
        self._path, self._rotate, self._backup_count = path, rotate, backup_count
        self._file: io.FileIO | None = None
        self._size = 0

    def put(self, raw: bytes) -> None:
        try:
            if self._file is None:
                self._open()
            elif self._size + len(raw) > self._rotate:
                self._turn()
            self._append(raw)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = io.FileIO(self._path, "a", opener=_private)
        self._size = self._file.seek(0, os.SEEK_END)

    def _turn(self) -> None:
        self.close()
        for n in range(self._backup_count, 0, -1):
            older = self._numbered(n - 1)
            if older.exists():
                older.replace(self._numbered(n))
        self._open()

    def _numbered(self, n: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{n}") if n else self._path

    def _append(self, raw: bytes) -> None:
        assert self._file is not None
        done = self._file.write(raw)
        self._size += done
        if done < len(raw):
            # Half a line would make the next one unreadable too.
            self._file.truncate(self._size - done)
            self._size -= done
            raise OSError(28, "no space left for a whole line")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o640)


class AuditLog:
    """Writes lines into a sink, in a daemon thread.

    now: gives the time of a line about lost lines
    waiting: most lines that wait
    """

    def __init__(
        self,
        sink: AuditSink,
        registry: CollectorRegistry,
        now: Callable[[], datetime],
        waiting: int = WAITING,
    ) -> None:
        self._sink, self._now, self._most = sink, now, waiting
        self._lines: deque[AuditLine] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._lost = 0
        self._trouble = ""
        self._count = Counter(
            "kubenode_audit_lines",
            "Number of lines of the audit log. lost: the disk did not accept them in time.",
            ["outcome"],
            registry=registry,
        )
        for outcome in (WRITTEN, LOST):
            self._count.labels(outcome)
        # A daemon thread: a disk that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def write(self, line: AuditLine) -> None:
        with self._wake:
            if self._closing or len(self._lines) >= self._most:
                self._lost += 1
                self._count.labels(LOST).inc()
                return
            self._lines.append(line)
            self._wake.notify()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write the waiting lines within `seconds`. Lines that remain then are lost."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(seconds)

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        while (line := self._next()) is not None:
            try:
                self._tell_of_lost()
                self._sink.put(line.encoded())
            except OSError as error:
                self._failed(line, str(error))
            else:
                self._count.labels(WRITTEN).inc()
                self._trouble = ""
        self._sink.close()

    def _next(self) -> AuditLine | None:
        """Return the next line; None once the log is closed and all lines are written."""
        with self._wake:
            while not self._lines:
                if self._closing:
                    return None
                self._wake.wait()
            return self._lines.popleft()

    def _tell_of_lost(self) -> None:
        with self._wake:
            lost, self._lost = self._lost, 0
        if not lost:
            return
        text = f"{lost} lines before this one are lost: {self._trouble or 'too many at once'}"
        line = AuditLine(self._now(), "audit", "kubenode", "Lost", "Failed", text)
        try:
            self._sink.put(line.encoded())
        except OSError:
            with self._wake:
                self._lost += lost
            raise

    def _failed(self, line: AuditLine, why: str) -> None:
        """Put the line back as the first for a retry; lose it if the queue is full or closed."""
        with self._wake:
            if self._closing or len(self._lines) >= self._most:
                self._lost += 1
                self._count.labels(LOST).inc()
            else:
                self._lines.appendleft(line)
            closing = self._closing
        if why != self._trouble:
            log.warning("audit lines cannot be written", extra={"why": why})
            self._trouble = why
        if not closing:
            with self._wake:
                self._wake.wait_for(lambda: self._closing, RETRY_SECONDS)


def opened(target: str, registry: CollectorRegistry, now: Callable[[], datetime]) -> AuditLog:
    """Open the audit log at `target`: a file, or `-` for standard output."""
    sink: AuditSink = StandardOutput() if target == STANDARD_OUTPUT else RotatedFile(Path(target))
    return AuditLog(sink, registry, now)
