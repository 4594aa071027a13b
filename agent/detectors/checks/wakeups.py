"""Files of the kernel that wake who watches them: /proc/PID/mountinfo and PSI triggers.

Both tell by POLLPRI, which asyncio does not watch for. An epoll instance of our own does, and is
itself readable when it has something to tell.
"""

import asyncio
import os
import select


class Waking:
    """Sets `event` whenever the kernel signals on `fd`, which is closed with it.

    Raises OSError, and leaves `fd` open, for a file that does not signal.
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
        # What it returns does not matter: the kernel forgets a signal once anybody has asked.
        self._epoll.poll(0)
        self._event.set()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._epoll.close()
        os.close(self._fd)
