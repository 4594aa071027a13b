"""What runs out, wears out or goes astray on a host, from what its kernel tells.

Each function reads once and is blocking; `root` is prefixed to every path, for hosts that are
looked at from a container and for tests. A limit that was exceeded counts as exceeded until the
value is well below it.
"""

from pathlib import Path


def number(root: str, path: str) -> int | None:
    """The first number of a file of the kernel, None when this kernel has no such file."""
    try:
        fields = Path(root, path).read_text(encoding="ascii", errors="replace").split()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return int(fields[0]) if fields and fields[0].isdecimal() else None
