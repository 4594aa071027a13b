"""The programs as people start them: the operator, the command, and an agent that joins."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command import environment, kubenode, started
from support.control_plane import ControlPlane
from support.machine_world import MACHINES, OPERATOR, OPERATOR_GROUPS, a_machine
from support.running import until

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.machine_app import Printed
from kubenode.cli.machine_show import shown
from kubenode.cli.machine_tokens import print_token, reissue
from kubenode.cli.options import Listing
from machine.names import secret_name

pytestmark = pytest.mark.integration
REPOSITORY = Path(__file__).parents[3]
ROLES = REPOSITORY / "charts" / "kubenode" / "people.yaml"
NAME = "program-host"


@pytest.fixture(scope="module", autouse=True)
def machine(cluster: ControlPlane) -> Iterator[None]:
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(NAME)))
    yield
    cluster.kubectl("delete", "knm", NAME)


@contextmanager
def an_agent(config: Path) -> Iterator[None]:
    with open(config.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agent", str(config)],
            cwd=REPOSITORY,
            env=environment(PYTHONPATH=str(REPOSITORY)),
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


def lives(cluster: ControlPlane) -> bool:
    status = cluster.get(f"{MACHINES}/{NAME}").get("status", {})
    conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
    return conditions.get("AgentReady") == "True"


def has_token(cluster: ControlPlane) -> bool:
    """The command itself waits for 15 s, which a busy machine may need for less."""
    bootstrap = cluster.get(f"{MACHINES}/{NAME}").get("status", {}).get("bootstrap", {})
    token_id = bootstrap.get("tokenID", "")
    listed = cluster.get("/api/v1/namespaces/kube-system/secrets")["items"]
    names = {found["metadata"]["name"] for found in listed}
    return bool(token_id) and secret_name(token_id) in names


@pytest.fixture(scope="module")
def people(cluster: ControlPlane) -> Iterator[dict[str, str]]:
    """Kubeconfigs of users by what they may do: `hosts` all that the commands need, not more."""
    cluster.kubectl("apply", "-f", ROLES)
    bound = {"hosts": "kubenode-machine-operator", "views": "kubenode-viewer"}
    for user, role in bound.items():
        words = (f"machine-{user}", f"--clusterrole={role}", f"--user=machine-{user}")
        cluster.kubectl("create", "clusterrolebinding", *words)
    words = ("machine-hosts", "--role=kubenode-machine-token-reader", "--user=machine-hosts")
    cluster.kubectl("create", "rolebinding", "-n", "kube-system", *words)
    yield {user: str(cluster.kubeconfig_for(f"machine-{user}")) for user in bound}
    cluster.kubectl("delete", "rolebinding", "-n", "kube-system", "machine-hosts")
    cluster.kubectl("delete", "clusterrolebinding", *(f"machine-{user}" for user in bound))
    cluster.kubectl("delete", "-f", ROLES)


async def test_an_agent_joins_with_what_the_command_prints(
    cluster: ControlPlane,
    people: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    who, context = people["hosts"], None
    rights = cluster.kubeconfig_for(OPERATOR, OPERATOR_GROUPS)
    more = ("--health-port=0", f"--kubeconfig={rights}", "--audit-file=")
    with started("run", "machine", *more):
        await until(lambda: has_token(cluster), 90, "there is no token")
        printed = kubenode("machine", "token", NAME, f"--kubeconfig={who}")
        assert printed.returncode == 0, printed.stderr
        token = tmp_path / "token"
        token.write_text(printed.stdout)
        await print_token(NAME, Printed.TOML, "", who, context)
        settings = capsys.readouterr().out
        assert printed.stdout.strip() not in settings
        found = tomllib.loads(settings)
        assert (found["agent"], found["node"], found["server"]) == (NAME, NAME, cluster.server)
        moved = {found["ca_file"]: str(cluster.ca_file), found["bootstrap_token_file"]: str(token)}
        for before, after in moved.items():
            settings = settings.replace(before, after)
        config = tmp_path / "agent.toml"
        config.write_text(f'{settings}state_dir = "{tmp_path / "state"}"\n')
        with an_agent(config):
            await until(lambda: lives(cluster), 90, "AgentReady is not True")
        for user in people.values():
            assert await shown(NAME, Listing.TABLE, user, context) == Exit.FINE
            assert "Ready" in capsys.readouterr().out
        with pytest.raises(Refusal, match=f"kubenode machine reissue {NAME}"):
            await print_token(NAME, Printed.TEXT, "", who, context)
        assert capsys.readouterr().out == ""
        await until(lambda: not has_token(cluster), 90, "the token is not revoked")
        await reissue(NAME, who, context)
        await until(lambda: has_token(cluster), 90, "there is no other token")
        await print_token(NAME, Printed.JSON, "https://api.example:6443", who, context)
        told = json.loads(capsys.readouterr().out)
        assert told["token"] != printed.stdout.strip() and told["agent"] == NAME
        assert "BEGIN CERTIFICATE" in told["ca"]
        assert told["server"] == "https://api.example:6443"
        with pytest.raises(Refusal, match="a right is missing"):
            await print_token(NAME, Printed.TEXT, "", people["views"], context)
        with pytest.raises(Refusal, match="a right is missing"):
            await reissue(NAME, people["views"], context)


async def test_a_server_that_hosts_cannot_trust_is_refused(cluster: ControlPlane) -> None:
    with pytest.raises(Refusal, match="no https:// URL"):
        await print_token(NAME, Printed.TOML, "http://x", str(cluster.kubeconfig), None)


async def test_a_machine_that_is_not_there_is_named(cluster: ControlPlane) -> None:
    with pytest.raises(Refusal, match="there is no Machine nobody"):
        await print_token("nobody", Printed.TEXT, "", str(cluster.kubeconfig), None)
