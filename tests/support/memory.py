"""How much memory this process has."""

import resource
from pathlib import Path


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
