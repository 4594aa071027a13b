"""What a host must know to join as a Machine, and the settings of its agent. No secret is here."""

import json
from dataclasses import dataclass

CONFIG = "/etc/kubenode/agent.toml"
CA_FILE = "/etc/kubenode/ca.crt"
TOKEN_FILE = "/etc/kubenode/bootstrap-token"
SERVICE = "kubenode-agent.service"
PACKAGE = "kubenode-agent"
STATE = "/var/lib/kubenode-agent"
CACHE = "/var/cache/kubenode-agent"
BROUGHT = f"{STATE}/brought"
"""Packages that came with the agent's, one a line: `export` takes off what nothing else needs."""


@dataclass(frozen=True, slots=True)
class Joining:
    """machine  name of the Machine
    node     name that its Node has, or would have
    server   https://HOST:PORT of the API server, as the host reaches it
    ca       PEM of who signs the server's certificate
    """

    machine: str
    node: str
    server: str
    ca: str


@dataclass(frozen=True, slots=True)
class Download:
    """Where the agent's Debian package is, for hosts that fetch it themselves. Empty: it is in the
    host's own package sources, or installed already."""

    url: str = ""
    sha256: str = ""


NO_DOWNLOAD = Download()


def agent_toml(joining: Joining) -> str:
    """The agent's settings; a JSON string is one of TOML too."""
    lines = {
        "node": joining.node,
        "agent": joining.machine,
        "server": joining.server,
        "ca_file": CA_FILE,
        "bootstrap_token_file": TOKEN_FILE,
    }
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
