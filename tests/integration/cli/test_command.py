"""The real command, run as people run it: exit codes, and messages that say what to do."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
from support.command import fresh, http_server, kubeconfig, kubenode

pytestmark = pytest.mark.integration

RUNS = [("run", "all"), ("run", "remedy"), ("run", "defender")]
VERSION = (200, {"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
API = (200, {"kind": "APIVersions", "versions": ["v1"]})


def refused(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


def test_help_comes_at_once() -> None:
    began = _processor_seconds()
    result = fresh("--help")
    assert result.returncode == 0
    assert "demo" in result.stdout
    assert _processor_seconds() - began < 2  # 0.2 s; importing kubernetes alone takes 1 s


def _processor_seconds() -> float:
    """Of all commands that ended: how busy the machine is does not count."""
    used = os.times()
    return used.children_user + used.children_system


def test_version_is_printed() -> None:
    assert fresh("version").stdout.startswith("kubenode 0.")


def test_a_wrong_flag_or_command_is_a_usage_error() -> None:
    assert kubenode("demo", "--nods", "3").returncode == 2
    assert kubenode("dmo").returncode == 2
    refused(kubenode("demo", "--for", "soon"), 2, "--for", "'soon'", "90s")
    assert kubenode("demo", "--nodes", "2").returncode == 2


def test_a_setting_of_the_environment_that_is_wrong_names_the_variable(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "k", "http://127.0.0.1:1")
    result = kubenode("run", "all", "--kubeconfig", config, KUBENODE_LEASE_SECONDS="ten")
    refused(result, 2, "KUBENODE_LEASE_SECONDS", "'ten'")


@pytest.mark.parametrize("command", RUNS)
class TestKubeconfig:
    def test_missing_file_is_named(self, command: tuple[str, ...], tmp_path: Path) -> None:
        absent = tmp_path / "absent"
        refused(kubenode(*command, "--kubeconfig", absent), 2, str(absent), "no such file")

    def test_malformed_file_is_named(self, command: tuple[str, ...], tmp_path: Path) -> None:
        bad = tmp_path / "bad"
        bad.write_text("clusters: [")
        refused(kubenode(*command, "--kubeconfig", bad), 2, str(bad), "not usable")

    def test_unknown_context_is_named(self, command: tuple[str, ...], tmp_path: Path) -> None:
        config = kubeconfig(tmp_path / "k", "http://127.0.0.1:1")
        result = kubenode(*command, "--kubeconfig", config, "--context", "elsewhere")
        refused(result, 2, str(config), "elsewhere")

    def test_server_that_does_not_answer_is_unreachable(
        self, command: tuple[str, ...], tmp_path: Path
    ) -> None:
        with socket.socket() as taken:  # bound but not listening: refuses at once
            taken.bind(("127.0.0.1", 0))
            server = f"http://127.0.0.1:{taken.getsockname()[1]}"
            config = kubeconfig(tmp_path / "k", server)
            refused(kubenode(*command, "--kubeconfig", config), 3, "does not answer", str(config))

    def test_refused_credentials_are_told_as_such(
        self, command: tuple[str, ...], tmp_path: Path
    ) -> None:
        no = (401, {"kind": "Status", "reason": "Unauthorized", "message": "no", "code": 401})
        with http_server({"/version": VERSION, "/api": no}) as server:
            config = kubeconfig(tmp_path / "k", server, token="old")
            refused(kubenode(*command, "--kubeconfig", config), 3, "credentials", str(config))

    def test_cluster_without_our_kinds_names_the_command_that_installs_them(
        self, command: tuple[str, ...], tmp_path: Path
    ) -> None:
        with http_server({"/version": VERSION, "/api": API}) as server:
            config = kubeconfig(tmp_path / "k", server)
            refused(kubenode(*command, "--kubeconfig", config), 1, "kubenode install")


BLOCK = """\
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("durable_rules"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
"""


@pytest.mark.parametrize("command", [("demo", "--for", "1s", "--json"), ("run", "all")])
def test_missing_durable_rules_is_named_with_the_remedy(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    config = kubeconfig(tmp_path / "k", "http://127.0.0.1:1")
    more = ["--kubeconfig", str(config)] if command[0] == "run" else []
    result = fresh(*command, *more, PYTHONPATH=str(tmp_path))
    refused(result, 1, "durable_rules is not installed", "make venv")


def test_demo_on_a_port_that_is_taken_names_port_and_flag() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = kubenode("demo", "--for", "1s", "--json", "--port", str(port))
    refused(result, 1, f"port {port}", "is taken", "--port")


def test_crds_are_printed_as_yaml_that_names_all_kinds() -> None:
    from ruamel.yaml import YAML

    result = kubenode("crds")
    assert result.returncode == 0
    names = {crd["spec"]["names"]["kind"] for crd in YAML(typ="safe").load_all(result.stdout)}
    assert {"NodeRemedier", "RemedyOperationJob", "DefenderPolicy", "Permit"} <= names
