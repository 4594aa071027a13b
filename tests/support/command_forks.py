"""Runs `kubenode` in forks of one process that has loaded it: `python command_forks.py SOCKET`.

A start of the command costs a second and a half of processor time, nearly all of it imports that
are the same each time, and tests start it some hundred times. What runs in a fork is the command as
it is: a process with arguments, environment, folder and outputs of its own, and an exit code.

A request is one JSON line with two files for the outputs; the answers are the process ID and the
exit code. Who closes the connection before the second ends the command. The end of standard input
ends this process.
"""

import ctypes
import gc
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import kubenode.cli
import simulation.replay

MOST = 1 << 20
"""Bytes of a request."""
NUMBER = struct.Struct("i")
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def main(path: Path) -> None:
    sys.path[0] = str(Path(sys.executable).parent)  # as of the command, without our neighbours
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        for found in iter_modules(kubenode.cli.__path__, "kubenode.cli."):
            import_module(found.name)
        for found in iter_modules(simulation.replay.__path__, "simulation.replay."):
            import_module(found.name)
        gc.freeze()  # or collections in the forks would copy what they share
        listener.listen(64)
        sys.stdout.write("loaded\n")
        sys.stdout.flush()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who attends to a request is not waited for
        while True:
            ready, _, _ = select.select([listener.fileno(), sys.stdin.fileno()], [], [])
            if sys.stdin.fileno() in ready:
                return shutil.rmtree(path.parent)  # also of tests that were killed
            line, _ = listener.accept()
            with line:
                if os.fork() == 0:
                    listener.close()
                    return attend(line)


def attend(line: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    raw, outputs, _, _ = socket.recv_fds(line, MOST, 2)
    while not raw.endswith(b"\n"):
        raw += line.recv(MOST)
    if (child := os.fork()) == 0:
        line.close()
        become(json.loads(raw), *outputs)
    for file in outputs:
        os.close(file)  # or a pipe would not end with the command
    line.sendall(NUMBER.pack(child))
    watched = os.pidfd_open(child)
    ready, _, _ = select.select([watched, line.fileno()], [], [])
    if watched not in ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if watched in ready:
        line.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def become(request: Mapping[str, Any], out: int, err: int) -> None:
    """Ends as the command does, or with the process that attends to it."""
    os.setsid()
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
        os.dup2(file, number)  # under the streams that Python has of them
        os.close(file)
    random.seed()
    sys.argv = ["kubenode", *request["arguments"]]
    kubenode.cli.main()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
