"""Limits of local restarts on disk. A start is recorded before it happens.

An unreadable record counts as a limit that was used up now. A start that cannot be recorded does
not happen.
"""

import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from agent.disk import Disk, RealDisk, replace
from agent.local.rule import LocalUnit, list_recent_starts, spent

log = logging.getLogger(__name__)

FILE = "local.json"


class _Starts(msgspec.Struct, forbid_unknown_fields=True):
    starts: dict[str, list[datetime]]


class RestartLimit:
    """Limits starts. Raises OSError if the folder cannot be created."""

    def __init__(
        self, folder: Path, units: Mapping[str, LocalUnit], disk: Disk | None = None
    ) -> None:
        self._disk = disk or RealDisk()
        self._path = folder / FILE
        self.units = units
        self._disk.make_folder(folder)

    def take(self, unit: str, now: datetime) -> str:
        """Record one start of `unit`; return "" if it may happen, else why not."""
        rule = self.units[unit]
        try:
            starts = self._read(now)
            if spent(rule, starts.get(unit, ()), now):
                return f"was started {rule.most} times within {rule.within}"
            starts[unit] = [*starts.get(unit, ()), now]
            self._write(starts, now)
        except OSError as error:
            return f"its starts cannot be written down: {error}"
        return ""

    def _read(self, now: datetime) -> dict[str, list[datetime]]:
        try:
            return dict(_decode(self._disk.read(self._path)).starts)
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            log.warning("starts cannot be read, none are left", extra={"error": str(error)})
            starts = {name: [now] * rule.most for name, rule in self.units.items()}
            self._write(starts, now)
            return starts

    def _write(self, starts: Mapping[str, list[datetime]], now: datetime) -> None:
        content = _encode(_Starts(list_recent_starts(starts, self.units, now)))
        replace(self._disk, self._path, content)


_decode = msgspec.json.Decoder(_Starts).decode
_encode = msgspec.json.Encoder().encode
