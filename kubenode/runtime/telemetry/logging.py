"""Logs: the standard library's `logging` everywhere, rendered by structlog at the end.

A call reads `log.info("job opened", extra={"node": name})`: a constant sentence, and values apart.
People get coloured lines, machines one JSON object per line, both on stderr. Each line carries the
IDs of its task (`kubenode.runtime.telemetry.about`) and its trace. docs/reference/logs.md explains
every value.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.rate import TokenBucket
from kubenode.runtime.telemetry.about import ids
from kubenode.runtime.telemetry.tracing import here

LEVELS = ("debug", "info", "warning", "error")

SAME_BURST = 20.0
SAME_RATE = 2.0
SENTENCES = 2000
LONGEST = 4096
"""Characters of one value: an error may hold a whole page of a proxy."""


class RepeatFilter(logging.Filter):
    """Lets SAME_BURST records of one sentence pass at once, then SAME_RATE per second.

    A storm writes the same sentence for thousands of nodes. The first records tell what it is, and
    the next one that passes has the number `suppressed`. Errors are limited as well.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._buckets: dict[tuple[str, int, str], TokenBucket] = {}
        self._suppressed: dict[tuple[str, int, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key = (record.name, record.levelno, str(record.msg))
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= SENTENCES:  # some sentence contains values
                self._buckets.clear()
                self._suppressed.clear()
            bucket = self._buckets[key] = TokenBucket(SAME_RATE, SAME_BURST, self._clock)
        if not bucket.allow():
            self._suppressed[key] = self._suppressed.get(key, 0) + 1
            return False
        if count := self._suppressed.pop(key, 0):
            record.suppressed = count
        return True


def setup(
    level: str = "info",
    json: bool | None = None,
    *,
    stream: TextIO | None = None,
    clock: Clock | None = None,
) -> None:
    """Send all logs of the process to `stream` (stderr).

    level: one of LEVELS, for all loggers
    json: one JSON object per line; None if `stream` is no terminal
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"log level {level!r}: use one of {', '.join(LEVELS)}")
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(not stream.isatty() if json is None else json))
    handler.addFilter(RepeatFilter(clock or SystemClock()))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    # At DEBUG asyncio logs every socket.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _about(logger: Any, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in ids().items():
        line.setdefault(name, value)
    if (place := here()) is not None:
        line.setdefault("trace", place.trace)
    return line


def _short(logger: Any, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in line.items():
        if isinstance(value, str) and len(value) > LONGEST:
            line[name] = f"{value[:LONGEST]}…"
    return line


def _formatter(json: bool) -> logging.Formatter:
    before: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _about,
        _short,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if json:
        end: list[Any] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    else:
        end = [
            structlog.dev.ConsoleRenderer(
                colors=True, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=before,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *end],
    )
