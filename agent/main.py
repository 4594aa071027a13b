"""The program: `python -m agent`, and what `kubenode run agent` calls."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent import logs, settings
from agent.agent import Agent
from agent.diagnostics.bundles import Bundles
from agent.diagnostics.collecting import Collector
from agent.host.systemd import SystemdHost
from agent.journal import FileJournal, JournalError
from agent.probes.diagnostics import Diagnostics
from agent.probes.host import HostProbes
from agent.settings import Settings
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.kube.transport import CredentialsError
from kubenode.runtime.process import CannotStart, causes, run_until_signal

log = logging.getLogger(__name__)

FAILED, USAGE = 1, 2
JOURNAL, DIAGNOSTICS = "requests", "diagnostics"
HELP = f"""\
usage: kubenode run agent [CONFIG]

The node agent: does on this host what jobs ask of it. CONFIG is a TOML file
(default {settings.CONFIG_FILE}); KUBENODE_AGENT_<NAME> variables rule over it:

  node, server       required
  agent              name in the client certificate, default: node
  ca_file, cert_file, key_file, token_file
  state_dir          default /var/lib/kubenode-agent
  log_level          debug, info, warning, error
  checks             what RunCheck may run; in the file alone: [checks.NAME] argv, sha256
"""


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Exit code: 0 after a signal, 1 when it failed at work, 2 when it was set up wrongly."""
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


async def run(loaded: Settings) -> None:
    """Work until SIGTERM or SIGINT. Raises CannotStart, or an ExceptionGroup of what failed."""
    clock = SystemClock()
    host = SystemdHost(boot_id_file=loaded.boot_id_file)
    if not host.boot_id():
        raise CannotStart(f"boot_id_file {loaded.boot_id_file} cannot be read: nothing may be done")
    try:
        journal = FileJournal(Path(loaded.state_dir) / JOURNAL)
        transport = PlainTransport(
            loaded.server,
            loaded.ca_file or None,
            loaded.cert_file or None,
            loaded.key_file or None,
            loaded.token_file or None,
            user_agent="kubenode-agent",
        )
    except (JournalError, ValueError) as error:
        raise CannotStart(str(error)) from error
    kube = Kube(transport, clock=clock)
    try:
        await _greet(transport, loaded)
        collector = Collector(Bundles(Path(loaded.state_dir) / DIAGNOSTICS), clock)
        diagnostics = Diagnostics(collector, host, loaded.node, loaded.agent_name)
        probes = HostProbes(host, loaded.state_dir, diagnostics=diagnostics)
        agent = Agent(
            kube,
            host,
            loaded.node,
            loaded.agent_name,
            journal,
            clock,
            probes,
            checks=loaded.checks,
            collector=collector,
        )
        await run_until_signal([agent])
    finally:
        await kube.close()


async def _greet(transport: PlainTransport, loaded: Settings) -> None:
    """Read the credentials once, so that a broken certificate is told at the start.

    A server that does not answer is no reason to end: nodes boot before their control plane.
    """
    try:
        connection = await transport.connect()
    except CredentialsError as error:
        raise CannotStart(str(error)) from error
    await connection.close()
    log.info(
        "agent starts",
        extra={"node": loaded.node, "agent": loaded.agent_name, "server": loaded.server},
    )
