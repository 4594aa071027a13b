"""An agent of an older version under today's definitions, rights and requests.

docs/install.md supports agents that are up to two minor versions older than the central programs.
There is no release yet, so the older version is a commit.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent_jobs import GROUP, Operator, an_agent_job, asked, install, user
from support.control_plane import ControlPlane
from support.daemons import Daemon
from support.older_version import extract

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
OLDER = "12eb368a7da5"
"""The first commit whose agent can run on a simulated host as a process of its own."""
CODE = ("agent", "defender", "kubenode", "machine", "remedy", "rules", "tests/support")
AGENT = "older-agent"


@pytest.fixture
def agent(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Daemon]:
    """The older agent on a simulated host."""
    install(control_plane)
    tree = extract(OLDER, tmp_path / "tree", *CODE)
    identity = control_plane.issue_client_cert(user(AGENT), [GROUP])
    state = tmp_path / "state"
    state.mkdir()
    files = (control_plane.ca_file, identity.cert_file, identity.key_file)
    python = ("env", f"PYTHONPATH={tree / 'tests'}:{tree}", sys.executable, "-P")
    module = ("-m", "support.simulated_agent", control_plane.server, *files, AGENT, state)
    daemon = Daemon(AGENT, [*python, *module], tmp_path / "agent.log")
    daemon.start()
    yield daemon
    daemon.stop()


def test_older_agent_carries_out_a_request_of_this_version(
    control_plane: ControlPlane, agent: Daemon
) -> None:
    operator = Operator(control_plane)
    job = operator.make(an_agent_job("older-agent-a", AGENT, "containerd.service"), asked("boot-1"))
    answer = operator.wait_answer(job, seconds=120)
    assert (answer["state"], answer["code"]) == ("Done", 0), agent.tail()
    control_plane.kubectl("delete", "knj", job)
