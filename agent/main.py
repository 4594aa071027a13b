"""The program: `python -m agent`, and what `kubenode run agent` calls."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent import logs, settings
from agent.agent import Agent
from agent.components.records import FileRecords
from agent.detectors.assembly import detectors as watch
from agent.detectors.metadata.assembly import detectors as watch_metadata
from agent.diagnostics.bundler import DiagnosticsCollector
from agent.diagnostics.bundles import Bundles
from agent.diagnostics.upload import OperatorStore
from agent.host.files import HostRoot
from agent.host.real.build import real_ports
from agent.host.real.components.build import real_components
from agent.host.systemd import SystemdHost
from agent.identity.keeper import IdentityKeeper, IdentityTarget
from agent.identity.startup import Joined
from agent.identity.store import IdentityStore, StoreError
from agent.journal import FileJournal, JournalError
from agent.local.limit import RestartLimit
from agent.machine import arch
from agent.nodestatus.events import SELF
from agent.notify import Alive, SystemdNotifier
from agent.outbox import Outbox
from agent.probes.diagnostics import Diagnostics
from agent.probes.host import HostProbes
from agent.settings import IDENTITY, AgentSettings
from agent.upgrade import Upgrade
from agent.version import version
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.duration import seconds
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.kube.transport import CredentialsError
from kubenode.runtime.process import CannotStart, Part, causes, run_until_signal

log = logging.getLogger(__name__)

FAILED, USAGE = 1, 2
JOURNAL, DIAGNOSTICS, OUTBOX = "requests", "diagnostics", "outbox"
COMPONENTS = "components/records"
HELP = f"""\
usage: kubenode run agent [CONFIG]

The node agent: does on this host what jobs ask of it. CONFIG is a TOML file
(default {settings.CONFIG_FILE}); KUBENODE_AGENT_<NAME> variables rule over it:

  node, server       required
  agent              name in the client certificate, default: node
  ca_file, cert_file, key_file, token_file
  bootstrap_token_file  for the first certificate, where the agent keeps its own
  certificate_life      of those that it asks for, default 720h
  state_dir             default /var/lib/kubenode-agent
  host_root             where the host's root is mounted, default /; /host in the DaemonSet
  log_level             debug, info, warning, error
  checks                what RunCheck may run; in the file alone: [checks.NAME] argv, sha256
  detectors             what is watched, and its limits; in the file alone: [detectors.NAME]
  local                 what is repaired without asking; in the file alone: [local.units."NAME"]
  operator              https://HOST:PORT of the remedy operator; operator_ca_file checks it
  operator_token_file   bearer token for the operator, default: token_file
  metadata              whose metadata service is watched; in the file alone: [metadata] cloud
"""


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run the program; return 0 after a signal, 1 after a failure, 2 for a wrong setup."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(HELP)
        return 0
    if len(arguments) > 1 or any(word.startswith("-") for word in arguments):
        sys.stderr.write(f"kubenode agent: {' '.join(arguments)}: not understood\n\n{HELP}")
        return USAGE
    try:
        loaded = settings.load(os.environ if environ is None else environ, *arguments)
        logs.setup(loaded.log_level)
        asyncio.run(run(loaded))
    except CannotStart as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"kubenode agent: {line}\n")
        return USAGE
    except ExceptionGroup as group:
        for cause in causes(group):
            log.error("the agent ends", extra={"error": f"{type(cause).__name__}: {cause}"})
        return FAILED
    return 0


async def run(loaded: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises CannotStart, or an ExceptionGroup of what failed."""
    clock = SystemClock()
    files = HostRoot(loaded.host_root)
    host = SystemdHost(files.bus_address(), str(files.path(loaded.boot_id_file)))
    if not host.boot_id():
        raise CannotStart(f"boot_id_file {loaded.boot_id_file} cannot be read: nothing may be done")
    state = Path(loaded.state_dir)
    upgrade = Upgrade(state, version())
    try:
        journal = FileJournal(state / JOURNAL)
        records = FileRecords(state / COMPONENTS)
        limit = RestartLimit(state, loaded.local.units)
        identity = IdentityStore(state / IDENTITY) if loaded.managed else None
        identity_file = str(identity.current) if identity is not None else ""
        transport = _make_transport(
            loaded, loaded.server, loaded.ca_file, loaded.token_file, identity_file
        )
        operator_ca = loaded.operator_ca_file or loaded.ca_file
        operator_token = loaded.operator_token_file or loaded.token_file
        operator = (
            _make_transport(loaded, loaded.operator, operator_ca, operator_token, identity_file)
            if loaded.operator
            else None
        )
    except (JournalError, StoreError, OSError, ValueError) as error:
        raise CannotStart(str(error)) from error
    kube = Kube(transport, clock=clock)
    try:
        if identity is None:
            await _greet(transport)
        log.info(
            "agent starts",
            extra={"node": loaded.node, "agent": loaded.agent_name, "server": loaded.server},
        )
        agent = _agent(loaded, kube, host, operator, journal, records, limit, upgrade)
        alive = Alive(SystemdNotifier(os.environ), agent.worker.recovered.wait, agent.status, clock)
        if agent.publisher and (report := upgrade.rejected(clock.now(), SELF)):
            agent.publisher.report(report)
        parts: list[Part] = [agent]
        if identity is not None:
            keeper = _keeper(loaded, identity, kube, operator)
            parts = [Joined(agent, keeper.there, clock), keeper]
        await run_until_signal([*parts, alive])
    finally:
        await kube.close()
        if operator is not None:
            await operator.close()


def _agent(
    loaded: AgentSettings,
    kube: Kube,
    host: SystemdHost,
    operator: PlainTransport | None,
    journal: FileJournal,
    records: FileRecords,
    limit: RestartLimit,
    upgrade: Upgrade,
) -> Agent:
    state, clock = Path(loaded.state_dir), kube.clock
    store = OperatorStore(operator, loaded.agent_name) if operator is not None else None
    collector = DiagnosticsCollector(Bundles(state / DIAGNOSTICS), clock, store, loaded.host_root)
    diagnostics = Diagnostics(collector, host, loaded.node, loaded.agent_name)
    ports = real_ports(host, loaded.server, loaded.state_dir, loaded.host_root)
    return Agent(
        kube,
        host,
        loaded.node,
        loaded.agent_name,
        journal,
        clock,
        HostProbes(
            host,
            loaded.state_dir,
            loaded.host_root,
            diagnostics=diagnostics,
            time=ports.time,
            containers=ports.containers,
        ),
        detectors=[
            *watch(loaded.detectors, host, clock, loaded.host_root, loaded.state_dir),
            *watch_metadata(loaded.metadata, operator, loaded.agent_name, clock),
        ],
        checks=loaded.checks,
        ports=ports,
        allowed=loaded.repairs,
        scripts=loaded.scripts,
        collector=collector,
        metadata=loaded.metadata,
        outbox=Outbox(state / OUTBOX),
        limit=limit,
        renewed=upgrade.proven,
        host_root=loaded.host_root,
        software=(
            real_components(host, loaded.state_dir, loaded.host_root, arch()),
            records,
        ),
    )


def _make_transport(
    loaded: AgentSettings, server: str, ca_file: str, token_file: str, identity_file: str
) -> PlainTransport:
    """Return a transport with the identity in `identity_file`, or with the settings' credentials.

    Raises OSError, ValueError.
    """
    return PlainTransport(
        server,
        ca_file or None,
        identity_file or loaded.cert_file or None,
        identity_file or loaded.key_file or None,
        token_file or None,
        user_agent=f"kubenode-agent/{version()}",
    )


def _keeper(
    loaded: AgentSettings, identity: IdentityStore, kube: Kube, operator: PlainTransport | None
) -> IdentityKeeper:
    wanted = IdentityTarget(
        loaded.agent_name,
        loaded.server,
        loaded.ca_file,
        loaded.bootstrap_token_file,
        int(seconds(loaded.certificate_life)),
    )
    others = [] if operator is None else [operator]
    return IdentityKeeper(wanted, identity, kube, kube.clock, others=others)


async def _greet(transport: PlainTransport) -> None:
    """Read the credentials once, so that a broken certificate is reported at the start.

    An API server that does not answer is no error: nodes boot before their control plane.
    """
    try:
        connection = await transport.connect()
    except CredentialsError as error:
        raise CannotStart(str(error)) from error
    await connection.close()
