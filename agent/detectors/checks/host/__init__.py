"""Checks of resources that run out or degrade on a host, from facts of its kernel.

Each function reads once and blocks. `root` is prefixed to every path, for hosts that are read from
a container, and for tests. An exceeded limit counts as exceeded until the value is well below it.
"""

from agent.host.files import HostRoot


def number(root: str, path: str) -> int | None:
    """Return the first number in a kernel file; None if this kernel has no such file."""
    try:
        fields = HostRoot(root).read_text(path).split()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return int(fields[0]) if fields and fields[0].isdecimal() else None
