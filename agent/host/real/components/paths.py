"""Paths of the host as the agent sees them, which may have the host's root mounted elsewhere."""

import os
from pathlib import Path

from agent.host import Contraindicated, HostError

MOST_LINKS = 40
INVISIBLE_FOLDERS = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""The agent's service has none of these, or its own."""
NO_FILES = ("/dev", "/proc", "/sys")
"""What is there is no file that could be replaced."""


def resolve_host_path(root: Path, path: str) -> Path:
    """Where the host's file `path` is for us. Links on the way mean the host's root.

    Raises Contraindicated when its last part is a link, or it lies where no file may be owned.
    """
    plain = os.path.normpath(path)
    for folder in (*INVISIBLE_FOLDERS, *NO_FILES):
        if plain == folder or plain.startswith(f"{folder}/"):
            raise Contraindicated(f"{path}: no component can own files in {folder}")
    parts, known, links = plain.strip("/").split("/"), "", 0
    while parts:
        here = f"{known}/{parts.pop(0)}"
        try:
            target = os.readlink(root / here.lstrip("/"))
        except OSError:
            known = here
            continue
        links += 1
        if not parts:
            raise Contraindicated(f"{path} is a link to {target}; own {target}, or take it away")
        if links > MOST_LINKS:
            raise HostError(f"{path}: more than {MOST_LINKS} links on the way")
        destination = target if target.startswith("/") else f"{known}/{target}"
        parts, known = [*os.path.normpath(destination).strip("/").split("/"), *parts], ""
    return root / known.lstrip("/")
