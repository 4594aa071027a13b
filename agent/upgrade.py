"""Exchanges state with the Debian package about an upgrade.

The file `renewed` in the state folder names the version that renewed its Lease. Without it the
package goes back to the previous version. The file `rejected` has the package's report about that,
which is published once.
"""

import logging
from datetime import datetime
from pathlib import Path

from agent.detectors import EventReport, EventSeverity
from agent.disk import Disk, RealDisk, replace

log = logging.getLogger(__name__)

RENEWED, REJECTED, REPORTED = "renewed", "rejected", "rejected.told"
ROLLED_BACK = "AgentRolledBack"
LONGEST = 1024


class Upgrade:
    def __init__(self, folder: Path, version: str, disk: Disk | None = None) -> None:
        self._folder, self._version = folder, version
        self._disk = disk or RealDisk()

    def proven(self) -> None:
        """Record that this version renewed its Lease. Never raises: the agent works without the
        record.
        """
        try:
            replace(self._disk, self._folder / RENEWED, f"{self._version}\n".encode())
        except OSError as error:
            log.warning("the lease's renewal is not on disk", extra={"error": str(error)})

    def rejected(self, now: datetime, detector: str) -> EventReport | None:
        """Return the report about a rejected version once; None if there is none."""
        path = self._folder / REJECTED
        try:
            text = self._disk.read(path)[:LONGEST].decode(errors="replace").strip()
            self._disk.rename(path, self._folder / REPORTED)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("what was taken back cannot be read", extra={"error": str(error)})
            return None
        log.error("a newer version was taken back", extra={"why": text})
        return EventReport(ROLLED_BACK, text, EventSeverity.WARNING, now, detector)
