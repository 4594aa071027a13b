"""What the agent still has to tell, on disk: a restart loses none of it and makes nothing younger.

One file. It holds every condition as it is known, with the boot that it is known of, and the
Events that wait. It is written beside the loop: a disk that hangs is a fault to be told, and must
not keep the agent from telling it. What cannot be read, or is of another boot, is not known.
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
"""Seconds that the telling waits for the disk."""
Write = Callable[[], bytes]
Beside = Callable[[Write], "asyncio.Future[bytes]"]


def in_a_thread(write: Write) -> "asyncio.Future[bytes]":
    return beside(write, "outbox")


class Outbox:
    """`folder` is made if it is missing. A disk that does not work is logged, once per kind.

    beside  has a write done while the loop goes on
    behind  whether what was last to be saved is not on disk: it did not work, or takes long
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
        """What an earlier process left; conditions only of the boot that runs."""
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
        """Returns when it is on disk, cannot be, or after PATIENCE."""
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
