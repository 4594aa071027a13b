"""Waits for kernel files that signal by POLLPRI: /proc/PID/mountinfo and PSI triggers.

asyncio does not watch for POLLPRI. An epoll instance does, and is itself readable on a signal.
"""

import asyncio
import os
import select


class Waking:
    """Sets `event` whenever the kernel signals on `fd`, and closes `fd` with itself.

    Raises OSError for a file that does not signal, and leaves `fd` open then.
    """

    def __init__(self, fd: int, event: asyncio.Event) -> None:
        self._fd, self._event = fd, event
        self._epoll = select.epoll()
        try:
            self._epoll.register(fd, select.EPOLLPRI)
        except OSError:
            self._epoll.close()
            raise
        asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._woken)

    def _woken(self) -> None:
        # The result does not matter: the call clears the kernel's signal.
        self._epoll.poll(0)
        self._event.set()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._epoll.close()
        os.close(self._fd)
