"""Settings of the agent: a TOML file, overridden by KUBENODE_AGENT_* variables.

    node = "n00042"
    server = "https://10.0.0.1:6443"
    ca_file = "/etc/kubenode/ca.crt"
    cert_file = "/etc/kubenode/agent.crt"
    key_file = "/etc/kubenode/agent.key"

    [checks.d-state-tasks]
    argv = ["/opt/kubenode/checks/d-state-tasks", "--longer-than", "120"]
    sha256 = "..."

    [repairs]
    reload_modules = ["mlx5_ib"]

    [scripts.reset-link]
    path = "/opt/kubenode/scripts/reset-link"
    sha256 = "..."

    [detectors]
    npd_configs = ["/etc/node-problem-detector/*.json"]

A DaemonSet has no file: it sets KUBENODE_AGENT_NODE and the others as variables. All settings are
checked at start. Every error names the setting, its value and the remedy.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent.actions.allowlist import AllowedScript, Repairs
from agent.actions.allowlist import complaints as about_repairs
from agent.actions.checks import AllowedCheck
from agent.detectors.metadata.settings import Metadata
from agent.detectors.settings import Detectors
from agent.host import BOOT_ID_FILE
from agent.identity.store import CURRENT
from agent.local.rule import LocalRules
from kubenode.runtime.duration import seconds
from kubenode.runtime.process import CannotStart

CONFIG_FILE = "/etc/kubenode/agent.toml"
PREFIX = "KUBENODE_AGENT_"
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_PLACE = re.compile(r" - at `\$\.(\w+(?:\.\w+)*)`$")
"""Place of a value in an error of msgspec, if no part of it is an entry of a list or table."""
FILES = (
    "ca_file",
    "cert_file",
    "key_file",
    "token_file",
    "operator_ca_file",
    "operator_token_file",
)
FILE_ALONE = frozenset({"checks", "detectors", "local", "metadata", "repairs", "scripts"})
"""Tables, which have no variable."""
IDENTITY = "identity"
"""Folder in `state_dir` for the key and certificate that the agent manages itself."""
SHORTEST_LIFE, LONGEST_LIFE = 600, 30 * 24 * 3600
LEVELS = ("debug", "info", "warning", "error")


class AgentSettingsError(CannotStart):
    """Settings that cannot be used. One line per error."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the agent. Files are paths; "" is none.

    node: name of the Node object of this host
    agent: name in the client certificate (CN kubenode:agent:NAME); "": the node's name
    server: https://HOST:PORT of the API server
    token_file: bearer token, if there is no client certificate
    bootstrap_token_file: token for the agent's first certificate, which the agent then manages
        itself
    certificate_life: lifetime of the certificates that the agent requests, such as `720h`
    state_dir: folder of the journal; must survive reboots
    boot_id_file: file of the host's kernel with the boot ID
    host_root: where the host's root is mounted; set by a DaemonSet
    checks: programs for RunCheck, by name; file only
    detectors: what is watched, see agent.detectors.settings; file only
    local: repairs without a request, see agent.local; file only
    repairs: what repairs may change, see agent.actions.allowlist; file only
    scripts: programs for RunScript, by name; file only
    metadata: the cloud whose metadata service is watched; file only
    operator: https://HOST:PORT of the remedy operator, which receives the cloud's notices; "": none
    operator_ca_file: PEM of its certificate authority; "": that of the API server
    operator_token_file: bearer token for the operator; "": that of `token_file`
    """

    node: str
    server: str
    agent: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    token_file: str = ""
    bootstrap_token_file: str = ""
    certificate_life: str = "720h"
    state_dir: str = "/var/lib/kubenode-agent"
    boot_id_file: str = BOOT_ID_FILE
    host_root: str = "/"
    log_level: str = "info"
    checks: dict[str, AllowedCheck] = msgspec.field(default_factory=dict)
    detectors: Detectors = Detectors()
    repairs: Repairs = Repairs()
    scripts: dict[str, AllowedScript] = msgspec.field(default_factory=dict)
    local: LocalRules = LocalRules()
    metadata: Metadata = Metadata()
    operator: str = ""
    operator_ca_file: str = ""
    operator_token_file: str = ""

    @property
    def agent_name(self) -> str:
        return self.agent or self.node

    @property
    def managed(self) -> bool:
        """Whether the agent requests and renews its certificate itself."""
        given = self.cert_file or self.token_file
        return self.server.startswith("https://") and not given


def load(environ: Mapping[str, str], config: str | None = None) -> AgentSettings:
    """Load the settings from a file and the environment. Raises AgentSettingsError.

    config: path of the file; None: KUBENODE_AGENT_CONFIG, or /etc/kubenode/agent.toml if it exists
    """
    given = _file(environ, config)
    for name in AgentSettings.__struct_fields__:
        if name not in FILE_ALONE and (value := environ.get(_var(name))) is not None:
            given[name] = value
    missing = [name for name in ("node", "server") if not given.get(name)]
    if missing:
        raise AgentSettingsError(
            "\n".join(f"{n} is not set: write it into {CONFIG_FILE} or {_var(n)}" for n in missing)
        )
    try:
        settings = msgspec.convert(given, AgentSettings)
    except msgspec.ValidationError as error:
        raise AgentSettingsError(_invalid(environ, config, given, str(error))) from error
    if complaints := list(_complaints(settings)):
        raise AgentSettingsError("\n".join(complaints))
    return settings


def _invalid(
    environ: Mapping[str, str], config: str | None, given: Mapping[str, object], problem: str
) -> str:
    """Return the error of a value of the file. Variables are text, which every field accepts.

    problem: of msgspec, which names the place as in `$.detectors.npd_configs`
    """
    text = f"config file {_path(environ, config)}: {problem}"
    if place := _PLACE.search(problem):
        value: Any = given
        for key in place[1].split("."):
            value = value[key]
        return text if isinstance(value, dict) else f"{text}, value {value!r}"
    known = ", ".join(AgentSettings.__struct_fields__)
    return f"{text}; there are: {known}" if "unknown field" in problem else text


def _path(environ: Mapping[str, str], config: str | None) -> Path:
    return Path(config or environ.get(f"{PREFIX}CONFIG") or CONFIG_FILE)


def _var(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def _file(environ: Mapping[str, str], config: str | None) -> dict[str, object]:
    named = config or environ.get(f"{PREFIX}CONFIG")
    path = _path(environ, config)
    if not named and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AgentSettingsError(f"config file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AgentSettingsError(f"config file {path} is no TOML: {error}") from error


def _complaints(settings: AgentSettings) -> list[str]:
    complaints = []
    if not settings.server.startswith(("https://", "http://")):
        complaints.append(f"server {settings.server!r}: give it as https://HOST:PORT")
    if bool(settings.cert_file) != bool(settings.key_file):
        complaints.append("cert_file and key_file go together: set both or neither")
    complaints += _identity(settings)
    complaints += about_repairs(settings.repairs, settings.scripts)
    if settings.operator and not settings.operator.startswith(("https://", "http://")):
        complaints.append(f"operator {settings.operator!r}: give it as https://HOST:PORT")
    if settings.metadata.cloud and not settings.operator:
        complaints.append("metadata.cloud is set, and nobody to tell: set operator as well")
    if settings.log_level not in LEVELS:
        complaints.append(f"log_level {settings.log_level!r}: one of {', '.join(LEVELS)}")
    for name, check in settings.checks.items():
        if not check.argv or not check.argv[0].startswith("/"):
            complaints.append(f"checks.{name}.argv: begin with the program's full path")
        if not _DIGEST.fullmatch(check.sha256):
            complaints.append(
                f"checks.{name}.sha256 {check.sha256!r}: give the 64 digits of sha256sum"
            )
    complaints += settings.local.complaints()
    for name in FILES:
        path = getattr(settings, name)
        if path and (why := _unreadable(path)):
            complaints.append(f"{name} {path}: {why}; put it there or set {_var(name)}")
    return complaints


def _identity(settings: AgentSettings) -> list[str]:
    complaints = []
    known = Path(settings.state_dir) / IDENTITY / CURRENT
    if settings.managed and not settings.bootstrap_token_file and not known.exists():
        complaints.append(
            "no identity: set cert_file and key_file, or token_file, or bootstrap_token_file"
        )
    if settings.bootstrap_token_file and (settings.cert_file or settings.token_file):
        complaints.append(
            "bootstrap_token_file is for agents that keep their certificate themselves: set it or"
            " cert_file and key_file, or token_file, not both"
        )
    try:
        fits = SHORTEST_LIFE <= seconds(settings.certificate_life) <= LONGEST_LIFE
    except ValueError:
        fits = False
    if not fits:
        complaints.append(
            f"certificate_life {settings.certificate_life!r}: give 10m to 720h, 30 days"
        )
    return complaints


def _unreadable(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return "" if file.read(1) else "the file is empty"
    except OSError as error:
        return error.strerror or str(error)
