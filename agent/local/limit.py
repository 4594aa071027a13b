"""The starts that count against a limit, on disk: a start is written down before it happens.

What cannot be read counts as a limit that was used up just now, and what cannot be written is not
done.
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
    """Raises OSError when the folder cannot be made; what it holds is read when it is asked."""

    def __init__(
        self, folder: Path, units: Mapping[str, LocalUnit], disk: Disk | None = None
    ) -> None:
        self._disk = disk or RealDisk()
        self._path = folder / FILE
        self.units = units
        self._disk.make_folder(folder)

    def take(self, unit: str, now: datetime) -> str:
        """Write one start of `unit` down; "" if it is, else why it must not happen."""
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
