"""inotify(7), by which the kernel reports changed files. Uses libc; Python has no binding."""

import ctypes
import os
import struct

MODIFY, ATTRIB = 0x2, 0x4
MOVED_TO, CREATE = 0x80, 0x100
CHANGED = MODIFY | ATTRIB
APPEARED = MOVED_TO | CREATE

_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_MOST = 64 * 1024


class Inotify:
    """An inotify instance. `fd` is readable after a change. Raises OSError."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._checked(self._libc.inotify_init1(_NONBLOCK_CLOEXEC), "inotify_init1")

    def watch(self, path: str, mask: int) -> int:
        """Watch a path; return a number for `forget`."""
        made = self._libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask))
        return self._checked(made, path)

    def forget(self, number: int) -> None:
        """Remove a watch, which may have ended with its file already."""
        self._libc.inotify_rm_watch(self.fd, number)

    def drain(self) -> set[str]:
        """Read all events; return their names, "" for a watched file itself."""
        names: set[str] = set()
        while True:
            try:
                data = os.read(self.fd, _MOST)
            except BlockingIOError:
                return names
            place = 0
            while place + _EVENT.size <= len(data):
                _, _, _, length = _EVENT.unpack_from(data, place)
                place += _EVENT.size
                names.add(os.fsdecode(data[place : place + length].rstrip(b"\0")))
                place += length

    def close(self) -> None:
        os.close(self.fd)

    @staticmethod
    def _checked(result: int, what: str) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), what)
        return int(result)
