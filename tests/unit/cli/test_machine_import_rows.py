"""Hosts as people name them: by flags, and in a file for many."""

import sys
from pathlib import Path

import pytest

from kubenode.cli.exits import Refusal
from kubenode.cli.machine_import import download_of, given_rows
from kubenode.cli.machine_import_rows import ImportRow, addresses_of, read_rows, row_of
from kubenode.cli.machine_ssh import require_asyncssh

NO_FLAGS: dict[str, object] = {"name": "", "addresses": [], "nodeName": ""}


def written(folder: Path, text: str) -> Path:
    path = folder / "hosts.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("ssh", "way"),
    [
        ("", ("", "h1", 0)),
        ("root@", ("root", "h1", 0)),
        ("root@10.0.0.1", ("root", "10.0.0.1", 0)),
        ("root@10.0.0.1:2222", ("root", "10.0.0.1", 2222)),
        ("10.0.0.1", ("", "10.0.0.1", 0)),
        ("me@[fd00::1]:22", ("me", "fd00::1", 22)),
        (":2222", ("", "h1", 2222)),
    ],
)
def test_each_part_of_the_way_may_be_left_out(ssh: str, way: tuple[str, str, int]) -> None:
    assert ImportRow(host="h1", ssh=ssh).ssh_target == way


@pytest.mark.parametrize("ssh", ["a b@h", "u@h:port", "-oProxyCommand=x@h:1:2", "u@h/x"])
def test_what_is_no_way_is_refused(ssh: str) -> None:
    with pytest.raises(Refusal, match="ssh"):
        row_of({"host": "h1", "ssh": ssh})


def test_a_machine_is_named_as_its_host_unless_that_is_an_address() -> None:
    assert ImportRow(host="SH-113").machine_name == "sh-113"
    assert ImportRow(host="10.0.0.1", name="sh-113").machine_name == "sh-113"
    for host in ("10.0.0.1", "fd00::1", "a_b"):
        with pytest.raises(Refusal, match="say --name"):
            _ = ImportRow(host=host).machine_name


def test_the_machine_is_a_valid_one_with_labels_on_both() -> None:
    row = ImportRow(host="h1", node_name="node-1", labels={"pool": "edge"}, observe=True)
    made = row.machine(["10.0.0.1"])
    assert made["metadata"] == {"name": "h1", "labels": {"pool": "edge"}}
    assert made["spec"] == {
        "origin": "Import",
        "addresses": ["10.0.0.1"],
        "node": "Expected",
        "mode": "Observe",
        "nodeName": "node-1",
        "nodeTemplate": {"labels": {"pool": "edge"}},
    }
    outside = ImportRow(host="h1", labels={"pool": "edge"}, node="None").machine(["10.0.0.1"])
    assert "nodeTemplate" not in outside["spec"]


def test_an_address_that_is_none_is_refused_by_field() -> None:
    with pytest.raises(Refusal, match="addresses"):
        ImportRow(host="h1").machine(["10.0.0.300"])


async def test_an_address_is_its_own_address() -> None:
    assert await addresses_of(ImportRow(host="10.0.0.1", name="h1")) == ["10.0.0.1"]
    assert await addresses_of(ImportRow(host="h1", addresses=["10.0.0.2"])) == ["10.0.0.2"]


def test_without_asyncssh_the_other_ways_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncssh", None)
    with pytest.raises(Refusal, match="--print-script or --print-cloud-init"):
        require_asyncssh()


def test_flags_are_defaults_of_a_file_and_labels_are_joined(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "defaults: {ssh: 'root@', labels: {pool: edge}}\n"
        "hosts:\n- {host: h1, labels: {rack: r1}}\n- {host: h2, ssh: me@h2}\n",
    )
    first, second = given_rows("", path, {**NO_FLAGS, "identity": "/key"}, ["zone=a"])
    assert first.labels == {"zone": "a", "pool": "edge", "rack": "r1"}
    assert (first.ssh, second.ssh) == ("root@", "me@h2")
    assert (first.identity, second.identity) == ("/key", "/key")


BAD = [
    ("hosts: []\n", "hosts"),
    ("hosts:\n- {host: h1, adresses: [10.0.0.1]}\n", "did you mean addresses?"),
    ("hosts:\n- {host: 10.0.0.1}\n", "no name for a Machine"),
    ("hosts:\n- {host: h1}\n- {host: h1}\n", "h1 is there twice"),
    ("hosts:\n- {host: h1, addresses: [10.0.0.1]}\n- {host: 10.0.0.1, name: h2}\n", "twice"),
    ("hosts:\n- {host: h1}\n- {host: h2, name: h1}\n", "h1 is there twice"),
    ("- h1\n", "map"),
    ("", "0 documents"),
    ("hosts:\n- {host: h1}\n---\nhosts:\n- {host: h2}\n", "2 documents"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_file_that_is_wrong_says_where_and_what(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_rows(written(tmp_path, text), {})
    assert said in str(refused.value) and "hosts.yaml" in str(refused.value)


def test_a_problem_of_a_host_is_shown_at_its_line(tmp_path: Path) -> None:
    text = "hosts:\n- {host: h1}\n- {host: h2, node: no}\n"
    with pytest.raises(Refusal, match=r"hosts.yaml:3:\d+: hosts\[1\].node"):
        read_rows(written(tmp_path, text), {})


def test_one_host_or_a_file_and_not_both(tmp_path: Path) -> None:
    for host, file in (("", None), ("h1", tmp_path / "x")):
        with pytest.raises(Refusal, match="one HOST, or many"):
            given_rows(host, file, NO_FLAGS, [])
    path = written(tmp_path, "hosts:\n- {host: h1}\n")
    with pytest.raises(Refusal, match="are of one host"):
        given_rows("", path, {**NO_FLAGS, "name": "m"}, [])
    with pytest.raises(Refusal, match="no KEY=VALUE"):
        given_rows("h1", None, NO_FLAGS, ["pool"])


def test_a_download_is_named_with_its_digest() -> None:
    digest = "AB" * 32
    assert download_of("https://mirror/x.deb", digest).sha256 == digest.lower()
    for url, sha256 in (
        ("https://mirror/x.deb", ""),
        ("", digest),
        ("https://m/x", "12"),
        ("ftp://m/x", digest),
    ):
        with pytest.raises(Refusal, match="--agent-"):
            download_of(url, sha256)
