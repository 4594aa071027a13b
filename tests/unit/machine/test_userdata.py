"""What a host runs once to join."""

import email
import shutil
import subprocess
import tomllib
from email.message import Message
from pathlib import Path

import pytest

from machine.bootstrap.userdata import (
    BadUserData,
    Joining,
    Package,
    agent_settings,
    script,
    with_site,
)

TOKEN = "abc123.0123456789abcdef"
CA = "-----BEGIN CERTIFICATE-----\nMIIB$HOME`id`\\n\n-----END CERTIFICATE-----\n"
JOINING = Joining("sh-113", "sh-113.example.com", "https://10.0.0.1:6443", CA, TOKEN)
DIGEST = "ab" * 32


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """By a real shell, with the host's folder and systemctl being of the test."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("systemctl", "hostnamectl"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {folder}/called\n')
        (tools / name).chmod(0o755)
    moved = text.replace("/etc/kubenode", str(folder / "etc"))
    shell = shutil.which("dash") or "/bin/sh"
    return subprocess.run(
        [shell],
        input=moved,
        env={"PATH": f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_host_knows_all_its_agent_needs_and_starts_it(tmp_path: Path) -> None:
    for _ in range(2):
        done = run(script(JOINING), tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    etc = tmp_path / "etc"
    assert (etc / "ca.crt").read_text() == CA
    assert (etc / "bootstrap-token").read_text() == f"{TOKEN}\n"
    assert (etc / "bootstrap-token").stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in etc.iterdir()) == [
        "agent.toml",
        "bootstrap-token",
        "ca.crt",
    ]
    known = tomllib.loads((etc / "agent.toml").read_text())
    assert (known["node"], known["agent"]) == ("sh-113.example.com", "sh-113")
    assert known["server"] == "https://10.0.0.1:6443"
    called = (tmp_path / "called").read_text().splitlines()
    assert called[-1] == "systemctl restart kubenode-agent.service"
    assert not [line for line in called if line.startswith("hostnamectl")]


def test_a_host_is_called_as_its_node_where_that_is_asked(tmp_path: Path) -> None:
    named = Joining("m1", "n1", "https://10.0.0.1:6443", CA, TOKEN, hostname=True)
    assert run(script(named), tmp_path).returncode == 0
    assert "hostnamectl set-hostname n1" in (tmp_path / "called").read_text()


def test_a_step_that_fails_ends_the_script_before_the_agent_starts(tmp_path: Path) -> None:
    missing = Package((tmp_path / "none.deb").as_uri(), DIGEST)
    joining = Joining("m1", "n1", "https://10.0.0.1:6443", CA, TOKEN, missing)
    assert run(script(joining), tmp_path).returncode != 0
    assert not (tmp_path / "called").exists()


def test_a_package_with_another_digest_is_not_installed(tmp_path: Path) -> None:
    wrong = tmp_path / "agent.deb"
    wrong.write_bytes(b"not the agent")
    joining = Joining("m1", "n1", "https://s", CA, TOKEN, Package(wrong.as_uri(), DIGEST))
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "apt-get").write_text(f"#!/bin/sh\ntouch {tmp_path}/installed\n")
    (tools / "apt-get").chmod(0o755)
    assert run(script(joining), tmp_path).returncode != 0
    assert not (tmp_path / "installed").exists()


@pytest.mark.parametrize("name", ["a b", "$(id)", "", "a\nb", "-x"])
def test_a_name_that_a_shell_would_read_is_refused(name: str) -> None:
    with pytest.raises(BadUserData):
        script(Joining(name, "n1", "https://s", CA, TOKEN))
    with pytest.raises(BadUserData):
        script(Joining("m1", name, "https://s", CA, TOKEN, hostname=True))


def test_what_would_end_a_file_early_is_refused() -> None:
    with pytest.raises(BadUserData, match=r"ca\.crt"):
        script(Joining("m1", "n1", "https://s", f"{CA}\nKUBENODE_END\nid\n", TOKEN))


def test_a_token_is_not_shown_by_its_joining() -> None:
    assert TOKEN not in repr(JOINING)
    assert TOKEN not in agent_settings(JOINING)


@pytest.mark.parametrize(
    "site, kind",
    [
        ("#cloud-config\nruncmd: [[true]]\n", "text/cloud-config"),
        ("#!/bin/sh\ntrue\n", "text/x-shellscript"),
        ("#! /usr/bin/env python3\nprint('ü')\n", "text/x-shellscript"),
    ],
)
def test_what_the_site_gives_comes_first_and_stays_as_it_is(site: str, kind: str) -> None:
    whole = email.message_from_bytes(with_site(script(JOINING), site).encode())
    assert whole.is_multipart()
    parts = [part for part in whole.walk() if not part.is_multipart()]
    assert [part.get_content_type() for part in parts] == [kind, "text/x-shellscript"]
    assert text_of(parts[0]) == site.rstrip("\n")
    assert text_of(parts[1]) == script(JOINING).rstrip("\n")


def test_without_the_sites_own_the_script_is_the_user_data() -> None:
    assert with_site(script(JOINING), " \n") == script(JOINING)


@pytest.mark.parametrize("site", ["write_files: []", "<html>", "#include\nhttp://x"])
def test_user_data_of_another_kind_is_refused_with_what_to_write(site: str) -> None:
    with pytest.raises(BadUserData, match="#cloud-config"):
        with_site(script(JOINING), site)


def test_a_package_is_named_with_its_digest() -> None:
    found = Package.parse(f"https://example.com/a/kubenode-agent_1_amd64.deb#sha256={DIGEST}")
    assert found == Package("https://example.com/a/kubenode-agent_1_amd64.deb", DIGEST)
    for bad in ("https://example.com/a.deb", "a.deb", f"https://e/a'b.deb#sha256={DIGEST}"):
        with pytest.raises(BadUserData, match="sha256"):
            Package.parse(bad)


def text_of(part: Message) -> str:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode().rstrip("\n")
