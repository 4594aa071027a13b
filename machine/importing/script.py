"""The shell script that lets a host in. SSH, cloud-init and people run the same one.

Its token comes over standard input or from a file, never in its text and never in an argument, so
that the script itself is no secret and no list of processes shows one. Run again it goes on: files
are written anew, a package that is there is not installed twice.
"""

from pathlib import Path

from machine.importing.joining import (
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
)

END = "KUBENODE_END"

_TEXT = Path(__file__).with_name("join.sh").read_text()


def join_script(joining: Joining, download: Download = NO_DOWNLOAD) -> str:
    """A POSIX shell script for root. Raises ValueError if the authority is no PEM."""
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
        "BROUGHT": BROUGHT,
        "PACKAGE": PACKAGE,
        "SERVICE": SERVICE,
        "URL": _quoted(download.url),
        "SHA256": _quoted(download.sha256),
        "TOML": toml.rstrip("\n"),
        "CA": ca,
        "END": END,
    }
    text = _TEXT
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
