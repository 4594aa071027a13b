"""The script that lets a host in, and what cloud-init is given."""

import email
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from machine.hostimport.cloudinit import FOLDER, cloud_config, user_data
from machine.hostimport.join_settings import Download, Joining, agent_toml, bootstrap_kubeconfig
from machine.hostimport.script import join_script

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
TOKEN = "abcdef.0123456789abcdef"
JOINING = Joining("sh-113", "node-113", "https://10.0.0.1:6443", CA)
ELSEWHERE = Download("https://mirror/it's.deb", "ab" * 32)


def loaded(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def test_settings_are_toml_that_names_machine_and_node_apart() -> None:
    told = tomllib.loads(agent_toml(JOINING))
    assert (told["agent"], told["node"]) == ("sh-113", "node-113")
    assert told["server"] == "https://10.0.0.1:6443"


def test_the_kubelets_first_kubeconfig_refers_to_the_token_and_has_no_secret() -> None:
    kubeconfig = json.loads(bootstrap_kubeconfig(JOINING))
    (cluster,), (user,) = kubeconfig["clusters"], kubeconfig["users"]
    assert cluster["cluster"]["server"] == "https://10.0.0.1:6443"
    assert user["user"] == {"tokenFile": "/etc/kubenode/bootstrap-token"}
    assert bootstrap_kubeconfig(JOINING).rstrip() in join_script(JOINING)


@pytest.mark.parametrize("download", [Download(), ELSEWHERE])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_script_is_valid_shell(tmp_path: Path, shell: str, download: Download) -> None:
    script = tmp_path / "join.sh"
    script.write_text(join_script(JOINING, download))
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "@" not in join_script(JOINING, download).replace('"$@"', "")


def test_script_refuses_what_it_does_not_know_before_it_writes(tmp_path: Path) -> None:
    script = tmp_path / "join.sh"
    script.write_text(join_script(JOINING))
    for words, said in (
        (["--token", TOKEN], "unknown argument"),
        (["--token-file", str(tmp_path / "none")], "no such file"),
        (["--package"], "needs a file"),
        (["--sha256"], "needs the checksum"),
    ):
        done = subprocess.run(["sh", script, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and said in done.stderr


def test_an_authority_that_is_no_certificate_is_refused() -> None:
    with pytest.raises(ValueError, match="no PEM certificate"):
        join_script(Joining("m", "m", "https://a:1", "oops"))


def test_cloud_init_runs_the_same_script_and_keeps_the_token_in_a_file() -> None:
    text = cloud_config(JOINING, TOKEN, ELSEWHERE)
    assert text.startswith("#cloud-config\n")
    data = loaded(text)
    assert set(data) == {"merge_how", "write_files", "runcmd"}
    files = {file["path"]: file for file in data["write_files"]}
    assert files[f"{FOLDER}/join.sh"]["content"] == join_script(JOINING, ELSEWHERE)
    assert files[f"{FOLDER}/token"] == {
        "path": f"{FOLDER}/token",
        "permissions": "0600",
        "content": f"{TOKEN}\n",
    }
    assert TOKEN not in str(data["runcmd"]) and TOKEN not in join_script(JOINING)
    assert data["runcmd"][-1] == ["rm", "-rf", FOLDER]


def test_user_data_of_a_class_is_kept_before_ours() -> None:
    own = "#!/bin/sh\necho hello\n"
    parts = email.message_from_string(user_data(JOINING, TOKEN, own=own)).get_payload()
    assert isinstance(parts, list)
    texts = [part.get_payload(decode=True) for part in parts]  # type: ignore[union-attr]
    kinds = [part.get_content_type() for part in parts]  # type: ignore[union-attr]
    assert kinds == ["text/x-shellscript", "text/cloud-config"]
    assert texts == [own.encode(), cloud_config(JOINING, TOKEN).encode()]
    assert user_data(JOINING, TOKEN, own=" \n") == cloud_config(JOINING, TOKEN)


def test_user_data_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="cloud-init would not know"):
        user_data(JOINING, TOKEN, own="write_files: []")
