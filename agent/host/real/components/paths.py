"""Paths of the host that components may own, as the agent sees them."""

import os
from pathlib import Path

from agent.host import Contraindicated, HostError
from agent.host.files import read_link, resolve_links

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
    try:
        known = resolve_links(root, plain, last=False)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}") from error
    if target := read_link(root, known):
        raise Contraindicated(f"{path} is a link to {target}; own {target}, or take it away")
    return root / known.lstrip("/")
