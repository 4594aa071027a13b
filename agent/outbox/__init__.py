"""Keeps unpublished conditions and Events on disk, so that a restart neither loses nor ages them.

One file holds every known condition, with its boot ID, and the waiting Events. It is written
outside the event loop, so that a disk that hangs does not prevent its own report. An unreadable
file counts as empty, and conditions of another boot are dropped.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent.disk import Disk, RealDisk, replace
from agent.outbox.contents import OutboxContents
from agent.patience import beside

log = logging.getLogger(__name__)

FILE = "untold.json"
PATIENCE = 0.25
"""Seconds that publishing waits for the disk."""
Write = Callable[[], bytes]
Beside = Callable[[Write], "asyncio.Future[bytes]"]


def in_a_thread(write: Write) -> "asyncio.Future[bytes]":
    return beside(write, "outbox")


class Outbox:
    """Stores unpublished reports in `folder`, which is created. Disk errors are logged once each.

    beside: runs a write outside the event loop
    behind: whether the last contents are not on disk, because the write failed or takes long
    """

    def __init__(
        self, folder: Path, disk: Disk | None = None, beside: Beside = in_a_thread
    ) -> None:
        self._folder = folder
        self._disk = disk or RealDisk()
        self._beside = beside
        self._saved = b""
        self._writing: asyncio.Future[bytes] | None = None
        self._trouble = ""
        self.behind = False

    def load(self, boot_id: str) -> OutboxContents:
        """Return what an earlier process stored; conditions only if they are of this boot."""
        try:
            self._disk.make_folder(self._folder)
            contents = _decode(self._disk.read(self._folder / FILE))
        except FileNotFoundError:
            return OutboxContents(boot_id=boot_id)
        except (OSError, msgspec.DecodeError) as error:
            log.warning("what was not told before is lost", extra={"error": str(error)})
            return OutboxContents(boot_id=boot_id)
        if not boot_id or contents.boot_id != boot_id:
            contents.conditions = []
        contents.boot_id = boot_id
        return contents

    async def save(self, contents: OutboxContents) -> None:
        """Write the contents. Returns when they are on disk, on failure, or after PATIENCE."""
        content = _encode(contents)
        if self._writing is not None:
            await self._settle(self._writing)
        if self._writing is None and content != self._saved:
            self._writing = self._beside(lambda: self._write(content))
            await self._settle(self._writing)
        self.behind = content != self._saved

    def _write(self, content: bytes) -> bytes:
        replace(self._disk, self._folder / FILE, content)
        return content

    async def _settle(self, writing: "asyncio.Future[bytes]") -> None:
        await asyncio.wait({writing}, timeout=PATIENCE)
        if not writing.done():
            return
        self._writing = None
        try:
            self._saved = writing.result()
        except OSError as error:
            if str(error) != self._trouble:
                log.warning("what waits to be told is not on disk", extra={"error": str(error)})
            self._trouble = str(error)
        else:
            self._trouble = ""


_decode = msgspec.json.Decoder(OutboxContents).decode
_encode = msgspec.json.Encoder().encode
