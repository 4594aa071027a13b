"""Settings with which a host joins as a Machine. They contain no secret."""

import json
from dataclasses import dataclass

CONFIG = "/etc/kubenode/agent.toml"
CA_FILE = "/etc/kubenode/ca.crt"
TOKEN_FILE = "/etc/kubenode/bootstrap-token"
BOOTSTRAP_KUBECONFIG = "/etc/kubenode/bootstrap-kubelet.conf"
SERVICE = "kubenode-agent.service"
PACKAGE = "kubenode-agent"
STATE = "/var/lib/kubenode-agent"
CACHE = "/var/cache/kubenode-agent"
BROUGHT = f"{STATE}/brought"
"""File that lists packages installed with the agent's, one in each line.

`export` removes those that nothing else needs.
"""


@dataclass(frozen=True, slots=True)
class Joining:
    """Parameters of a host that joins.

    machine: name of the Machine.
    node: name of its Node, whether it has one or not.
    server: https://HOST:PORT of the API server, as the host reaches it.
    ca: PEM of the authority that signs the server's certificate.
    """

    machine: str
    node: str
    server: str
    ca: str


@dataclass(frozen=True, slots=True)
class Download:
    """Location of the agent's package: a .deb, .rpm or .tar.gz, as the hosts install it.

    Empty if the host has it in its package sources, or installed.
    """

    url: str = ""
    sha256: str = ""


NO_DOWNLOAD = Download()


def agent_toml(joining: Joining) -> str:
    """Return the agent's settings as TOML. A JSON string is a valid TOML string."""
    lines = {
        "node": joining.node,
        "agent": joining.machine,
        "server": joining.server,
        "ca_file": CA_FILE,
        "bootstrap_token_file": TOKEN_FILE,
    }
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())


def bootstrap_kubeconfig(joining: Joining) -> str:
    """Return a kubeconfig for the first start of the host's kubelet, as JSON.

    It has no secret: it refers to the file of the bootstrap token.
    """
    cluster = {"server": joining.server, "certificate-authority": CA_FILE}
    name = "kubenode"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"tokenFile": TOKEN_FILE}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(document, indent=2) + "\n"
