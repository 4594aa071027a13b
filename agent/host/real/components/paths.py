"""Paths of the host as the agent sees them. The host's root may be mounted elsewhere."""

import os
from pathlib import Path

from agent.host import Contraindicated, HostError

MOST_LINKS = 40
INVISIBLE_FOLDERS = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""Folders that the agent's service does not see, or has private versions of."""
NO_FILES = ("/dev", "/proc", "/sys")
"""Folders without files that could be replaced."""


def resolve_host_path(root: Path, path: str) -> Path:
    """Return the path of the host's file `path` for the agent. Links resolve within the host's
    root.

    Raises Contraindicated if the last part is a link, or if the file is where no component can own
    files; HostError for too many links.
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
