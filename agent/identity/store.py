"""The agent's key and certificate on disk, readable by root only.

    current.pem  key and certificate in use, in one file, so that they change together
    next.pem     a new pair that the API server has not accepted yet
    next.key     the key of the pending request

A stored pair survives a power cut.
"""

from pathlib import Path

from agent.disk import Disk, RealDisk, replace

CURRENT, NEXT, NEXT_KEY = "current.pem", "next.pem", "next.key"


class StoreError(Exception):
    """A file that cannot be used. The text holds the file and the system's message."""


class IdentityStore:
    """Storage of the identity. Methods raise StoreError if the folder cannot be used.

    Reads return b"" for a missing file.
    """

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or RealDisk()
        try:
            self._disk.make_folder(folder)
            folder.chmod(0o700)
        except OSError as error:
            raise StoreError(
                f"identity folder {folder}: {error.strerror}; set state_dir to a folder on disk"
                " that the agent may write"
            ) from error

    @property
    def current(self) -> Path:
        return self._folder / CURRENT

    @property
    def next(self) -> Path:
        return self._folder / NEXT

    def read_current(self) -> bytes:
        return self._read(CURRENT)

    def read_next(self) -> bytes:
        return self._read(NEXT)

    def read_key(self) -> bytes:
        return self._read(NEXT_KEY)

    def keep_key(self, key: bytes) -> None:
        self._write(NEXT_KEY, key)

    def keep_next(self, pair: bytes) -> None:
        self._write(NEXT, pair)

    def adopt(self) -> None:
        """Make the next pair the current one."""
        try:
            self._disk.rename(self.next, self.current)
            self._disk.flush(self._folder)
        except OSError as error:
            raise StoreError(f"{self.current}: {error.strerror}") from error
        self.drop()

    def drop(self) -> None:
        """Drop the next pair and the key of the pending request."""
        try:
            for name in (NEXT, NEXT_KEY):
                self._disk.remove(self._folder / name)
            self._disk.flush(self._folder)
        except OSError as error:
            raise StoreError(f"{self._folder}: {error.strerror}") from error

    def _read(self, name: str) -> bytes:
        try:
            return self._disk.read(self._folder / name)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StoreError(f"{self._folder / name}: {error.strerror}") from error

    def _write(self, name: str, content: bytes) -> None:
        path = self._folder / name
        try:
            replace(self._disk, path, content)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error
