"""Checks the settings of a program that calls Kube Defender over HTTP, and builds its client.

The module is separate from kubenode.cli.defender_frontends so that such a program loads no web
server.
"""

from collections.abc import Iterable
from pathlib import Path

from defender.client import HttpPermits
from kubenode.cli.settings import AskerFlags
from kubenode.runtime.process import CannotStart


def checked_client(settings: AskerFlags) -> None:
    """Raise CannotStart for contradictory settings and for unreadable files."""
    if (settings.defender_cert_file is None) is not (settings.defender_key_file is None):
        raise CannotStart(
            "--defender-cert-file and --defender-key-file belong together: give both, or none"
        )
    files = ("defender_token_file", "defender_ca_file", "defender_cert_file", "defender_key_file")
    require_files(settings, files)


def defender_client(settings: AskerFlags) -> HttpPermits:
    token, tls = settings.defender_token_file, settings.defender_tls
    return HttpPermits(settings.defender_urls, token, tls=tls)


def require_files(settings: object, fields: Iterable[str]) -> None:
    """Raise CannotStart for a file that cannot be read.

    fields: names of settings that name a file.
    """
    for name in fields:
        path = getattr(settings, name)
        if path is None:
            continue
        try:
            Path(path).read_bytes()
        except OSError as error:
            flag = f"--{name.replace('_', '-')}"
            raise CannotStart(f"{flag} {path}: cannot be read: {error.strerror}") from error
