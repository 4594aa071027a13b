"""Shell script that joins a host. SSH, cloud-init and people run the same script.

The token comes over standard input or from a file, never in the text or in an argument. So the
script is not secret, and no process list shows the token. The script is idempotent: it writes files
anew and does not install a package twice.
"""

from pathlib import Path

from machine.hostimport.join_settings import (
    BOOTSTRAP_KUBECONFIG,
    BROUGHT,
    CA_FILE,
    CONFIG,
    NO_DOWNLOAD,
    PACKAGE,
    SERVICE,
    TOKEN_FILE,
    Download,
    Joining,
    agent_toml,
    bootstrap_kubeconfig,
)

END = "KUBENODE_END"
"""Delimiter of the here-documents in the script."""

_TEXT = Path(__file__).with_name("join.sh").read_text()


def join_script(joining: Joining, download: Download = NO_DOWNLOAD) -> str:
    """Return a POSIX shell script for root. Raises ValueError if `joining.ca` is not a PEM
    certificate.
    """
    toml = agent_toml(joining)
    ca = joining.ca.strip()
    if not ca.startswith("-----BEGIN CERTIFICATE-----") or END in ca:
        raise ValueError("the authority of the API server is no PEM certificate")
    values = {
        "MACHINE": joining.machine,
        "AGENT_LINE": next(line for line in toml.splitlines() if line.startswith("agent = ")),
        "CONFIG": CONFIG,
        "CA_FILE": CA_FILE,
        "TOKEN_FILE": TOKEN_FILE,
        "BOOTSTRAP_KUBECONFIG": BOOTSTRAP_KUBECONFIG,
        "BROUGHT": BROUGHT,
        "PACKAGE": PACKAGE,
        "SERVICE": SERVICE,
        "URL": _quoted(download.url),
        "SHA256": _quoted(download.sha256),
        "TOML": toml.rstrip("\n"),
        "KUBECONFIG": bootstrap_kubeconfig(joining).rstrip("\n"),
        "CA": ca,
        "END": END,
    }
    text = _TEXT
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
