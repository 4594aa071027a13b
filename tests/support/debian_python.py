"""The interpreters that Debian releases bring, each in an image of its release."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.fresh_clone import copy_worktree
from support.host_image import debian_image

NEEDS = ("python3", "python3-venv", "python3-dev", "gcc", "libc6-dev", "make", "git", "xz-utils")
"""What README.md asks of a machine, and xz for the tests of archives."""
SHARED = ("/etc/ssl/certs", "/etc/resolv.conf")
"""What leads to the package index of this machine; read only."""
PASSED_ON = ("PIP_", "SSL_CERT_", "http_proxy", "https_proxy", "no_proxy")
"""Beginnings of the environment variables that do the same."""


@dataclass(frozen=True, slots=True)
class DebianPython:
    """A machine of the release with a clone of the working tree. Its other files are dropped after
    each run.

    release: such as trixie
    folder: a new folder, where the clone lies
    """

    release: str
    folder: Path

    def clone(self) -> None:
        copy_worktree(self.folder)

    def run(self, *words: str, limit: float) -> subprocess.CompletedProcess[str]:
        """Run the command in the clone. Raises subprocess.TimeoutExpired after `limit` seconds."""
        image = debian_image(self.release, NEEDS)
        passed_on = {k: v for k, v in os.environ.items() if k.startswith(PASSED_ON)}
        return subprocess.run(
            [
                *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2"),
                *(f"--directory={image}", "--volatile=overlay"),
                *(f"--bind-ro={path}" for path in SHARED),
                *(f"--bind={self.folder}:/kubenode", "--chdir=/kubenode"),
                *(f"--setenv={key}={value}" for key, value in passed_on.items()),
                *words,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
