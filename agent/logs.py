"""Logging of the agent: one line for each record, for journald, without the operators' packages."""

import logging
import os

_PRIORITY = {"ERROR": "<3>", "CRITICAL": "<2>", "WARNING": "<4>", "INFO": "<6>", "DEBUG": "<7>"}
_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormatter(logging.Formatter):
    """Formats `sentence key=value ...`; under systemd with the priority prefix that journald
    reads.
    """

    def __init__(self, priorities: bool) -> None:
        super().__init__("%(message)s")
        self._priorities = priorities

    def format(self, record: logging.LogRecord) -> str:
        values = {k: v for k, v in vars(record).items() if k not in _KNOWN}
        line = " ".join([super().format(record), *(f"{k}={v!r}" for k, v in values.items())])
        if self._priorities:
            prefix = _PRIORITY.get(record.levelname, "<6>")
            return "\n".join(prefix + part for part in line.split("\n"))
        return f"{record.levelname.lower()}: {line}"


def setup(level: str) -> None:
    """Log everything to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(priorities="JOURNAL_STREAM" in os.environ))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
