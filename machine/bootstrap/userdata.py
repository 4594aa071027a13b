"""What a host runs once to join: a script of POSIX sh, which is user data of cloud-init as well.

Pure. It writes what the agent must know, installs the agent where it is told from where, and starts
it. To run it again does no harm. It holds the Machine's bootstrap token: who reads it can become
this Machine's agent, until the agent has its certificate.
"""

import json
import re
from dataclasses import dataclass, field

FOLDER = "/etc/kubenode"
UNIT = "kubenode-agent.service"
_END = "KUBENODE_END"
_SHEBANG = re.compile(r"#!\s*/\S+")
_BOUNDARY = "==kubenode-part=="
_PACKAGE = re.compile(r"(https?://[^\s#'\"]+\.deb)#sha256=([0-9a-f]{64})")


class BadUserData(ValueError):
    """What is wrong, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package of the agent, for hosts that can reach it."""

    url: str
    sha256: str

    @classmethod
    def parse(cls, text: str) -> "Package":
        """`https://HOST/PATH.deb#sha256=DIGEST`. Raises BadUserData."""
        found = _PACKAGE.fullmatch(text)
        if found is None:
            raise BadUserData(
                f"agent package {text!r}: write https://HOST/PATH.deb#sha256=64 hex digits"
            )
        return cls(found[1], found[2])


@dataclass(frozen=True, slots=True)
class Joining:
    """machine  name of the Machine, and of its agent
    node     name of its Node
    server   https://HOST:PORT of the API server, as the host reaches it
    ca       PEM of who signs its certificate
    token    the bootstrap token
    package  where the agent is; None: it is in the image
    hostname whether the host is to be called as its node
    """

    machine: str
    node: str
    server: str
    ca: str
    token: str = field(repr=False)
    package: Package | None = None
    hostname: bool = False


def agent_settings(joining: Joining) -> str:
    """The agent.toml; a JSON string is one of TOML too."""
    lines = {
        "node": joining.node,
        "agent": joining.machine,
        "server": joining.server,
        "ca_file": f"{FOLDER}/ca.crt",
        "bootstrap_token_file": f"{FOLDER}/bootstrap-token",
    }
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())


def script(joining: Joining) -> str:
    """Ends with an error if any step does. Raises BadUserData."""
    parts = [
        "#!/bin/sh",
        f"# Lets this host join as Machine {_word(joining.machine)}. Holds a secret.",
        "set -eu",
        "umask 077",
        f"mkdir -p -m 0755 {FOLDER}",
        *_file("ca.crt", joining.ca, "0644"),
        *_file("bootstrap-token", joining.token, "0600"),
        *_file("agent.toml", agent_settings(joining), "0644"),
    ]
    if joining.hostname:
        parts.append(f"hostnamectl set-hostname {_word(joining.node)}")
    if joining.package is not None:
        parts += _install(joining.package)
    parts += ["systemctl daemon-reload", f"systemctl enable {UNIT}", f"systemctl restart {UNIT}"]
    return "\n".join(parts) + "\n"


def with_site(ours: str, site: str) -> str:
    """User data for cloud-init: the site's own first, then `ours`, a script.

    Parts keep their kinds, so that a list such as `runcmd` of the site is never merged with one of
    ours. Raises BadUserData if the site's is neither a script nor a #cloud-config.
    """
    if not site.strip():
        return ours
    if site.startswith("#cloud-config"):
        kind = "text/cloud-config"
    elif _SHEBANG.match(site):
        kind = "text/x-shellscript"
    else:
        raise BadUserData(
            f"userData begins with {site.splitlines()[0][:40]!r}: begin it with #cloud-config or"
            " with #!/bin/sh"
        )
    if _BOUNDARY in site:
        raise BadUserData(f"userData holds {_BOUNDARY!r}, which parts are told apart by: leave it")
    parts = [(kind, site, "site"), ("text/x-shellscript", ours, "kubenode-join")]
    lines = [f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', "MIME-Version: 1.0", ""]
    for each, text, name in parts:
        lines += [
            f"--{_BOUNDARY}",
            f'Content-Type: {each}; charset="utf-8"',
            "MIME-Version: 1.0",
            "Content-Transfer-Encoding: 8bit",
            f'Content-Disposition: attachment; filename="{name}"',
            "",
            text.rstrip("\n"),
            "",
        ]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])


def _file(name: str, text: str, mode: str) -> list[str]:
    """Whole or not at all, and never readable by others before it has its mode."""
    if _END in text:
        raise BadUserData(f"{name} holds {_END}: it cannot be written by a script")
    new = f"{FOLDER}/{name}.new"
    return [
        f"cat > {new} <<'{_END}'",
        text.rstrip("\n"),
        _END,
        f"chmod {mode} {new}",
        f"mv {new} {FOLDER}/{name}",
    ]


def _install(package: Package) -> list[str]:
    """Of an agent that is there already nothing is changed: its version is a component's matter."""
    return [
        "state=$(dpkg-query -W -f '${Status}' kubenode-agent 2>/dev/null || true)",
        "if [ \"$state\" != 'install ok installed' ]; then",
        "  folder=$(mktemp -d)",
        f"  url='{package.url}'",
        "  if command -v curl >/dev/null; then",
        '    curl -fsSL --retry 5 --retry-connrefused -o "$folder/agent.deb" "$url"',
        "  else",
        '    wget -q --tries=5 -O "$folder/agent.deb" "$url"',
        "  fi",
        f'  echo "{package.sha256}  $folder/agent.deb" | sha256sum -c --quiet',
        '  chmod 755 "$folder"; chmod 644 "$folder/agent.deb"',
        '  DEBIAN_FRONTEND=noninteractive apt-get install -y "$folder/agent.deb"',
        '  rm -rf "$folder"',
        "fi",
    ]


def _word(name: str) -> str:
    """A name of an object, which needs no quotes. Raises BadUserData."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}", name):
        raise BadUserData(f"name {name!r}: only letters, digits, dots and hyphens are names")
    return name
