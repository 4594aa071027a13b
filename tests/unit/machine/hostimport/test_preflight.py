"""What speaks against letting a host in, and what does not."""

import subprocess
from dataclasses import replace

import pytest

from machine.hostimport.preflight import ClockOffset, ImportTarget, Level, findings
from machine.hostimport.probe import HostFacts, parse, probe_script

ANSWER = """Welcome to a host that greets whoever logs in
uid 0
hostname SH-113
machine x86_64
os debian-12
systemd 252
synchronised yes
dpkg amd64
audit
package
free /opt 66775388
free /var 66775388
kubelet
kubeconfig /etc/kubernetes/kubelet.conf
credential file
certificate /var/lib/kubelet/pki/kubelet-client-current.pem
rotates yes
reach ok
end yes
"""
WELL = parse(ANSWER)
WANTED = ImportTarget(
    "sh-113",
    "sh-113",
    True,
    "https://10.0.0.1:6443",
    packages=(("deb", "amd64"), ("tar", "amd64")),
)
RIGHT = ClockOffset(0.1, 0.05)


def told(
    facts: HostFacts, wanted: ImportTarget = WANTED, clock: ClockOffset = RIGHT
) -> list[tuple[Level, str]]:
    return [(one.level, str(one)) for one in findings(facts, wanted, clock)]


def test_a_host_in_order_has_no_findings() -> None:
    assert told(WELL) == []
    assert (WELL.node_name, WELL.arch, WELL.kubelet) == ("sh-113", "amd64", True)


REFUSED = [
    ({"complete": False}, "did not finish"),
    ({"root": False}, "let this user `sudo` without a password"),
    ({"systemd": ""}, "systemd: it does not run"),
    ({"systemd": "247"}, "systemd: version 247; the agent needs 249 or later"),
    ({"format": "rpm"}, "package: the host needs a .rpm for amd64, and --agent-package has none"),
    ({"arch": "arm64"}, "needs a .deb for arm64, and --agent-package has none; add it: `make pack"),
    ({"audit": ("nginx",)}, "not configured: nginx; `dpkg --configure -a`"),
    ({"free": {"/opt": 1024}}, "disk: 1 MiB free in /opt; free 300 MiB"),
    ({"agent": "other"}, "Machine other's already; `kubenode machine export other` first"),
    ({"reach": "TimeoutError timed out"}, "is not reached from the host: TimeoutError"),
    ({"reach": "SSLError CERTIFICATE_VERIFY_FAILED"}, "shows another certificate"),
]
WARNED = [
    ({"synchronised": "no"}, "clock: nothing is seen to keep it right"),
    ({"units": ("puppet.service",)}, "other manager: puppet.service is active or enabled"),
    ({"kubelet": False}, "Node sh-113 will be waited for"),
    ({"node_name": "ip-10-0-0-1"}, "calls itself ip-10-0-0-1, not sh-113; say --node-name"),
    ({"rotates": False}, "set rotateCertificates: true"),
    ({"reach": ""}, "from the host: unknown"),
]


@pytest.mark.parametrize(("change", "text"), REFUSED)
def test_what_cannot_work_is_refused_with_what_to_do(change: dict[str, object], text: str) -> None:
    found = told(replace(WELL, **change))  # type: ignore[arg-type]
    assert [level for level, _ in found] == [Level.REFUSED]
    assert text in found[0][1]


@pytest.mark.parametrize(("change", "text"), WARNED)
def test_what_may_work_is_warned_of(change: dict[str, object], text: str) -> None:
    found = told(replace(WELL, **change))  # type: ignore[arg-type]
    assert [level for level, _ in found] == [Level.WARNING]
    assert text in found[0][1]


def test_a_host_without_package_manager_needs_a_package_from_us_or_a_url() -> None:
    bare = replace(WELL, format="tar")
    assert told(bare) == []
    without = replace(WANTED, packages=())
    ((level, text),) = told(bare, without)
    assert level is Level.REFUSED
    assert "neither dpkg nor rpm; name the agent's .tar.gz by --agent-package" in text
    assert told(bare, replace(without, fetches=True)) == []
    assert told(replace(bare, package="0.3.1"), without) == [], "the agent is there already"
    assert told(WELL, without) == told(replace(WELL, format="rpm"), without) == []


@pytest.mark.parametrize(
    ("lines", "format_", "package"),
    [
        ("dpkg amd64\npackage ii 0.3.1\n", "deb", "0.3.1"),
        ("rpm yes\npackage ii 0.3.1\n", "rpm", "0.3.1"),
        ("rpm yes\npackage package kubenode-agent is not installed\n", "rpm", ""),
        ("package ii 0.3.1\n", "tar", "0.3.1"),
        ("", "tar", ""),
    ],
)
def test_format_and_installed_version_are_read(lines: str, format_: str, package: str) -> None:
    facts = parse(f"machine x86_64\n{lines}end yes\n")
    assert (facts.format, facts.package, facts.arch) == (format_, package, "amd64")


def test_f26_a_static_kubelet_certificate_is_refused_with_the_way_out() -> None:
    embedded = replace(WELL, credential="embedded", certificate="")
    ((level, text),) = told(embedded)
    assert level is Level.REFUSED
    assert "embedded in /etc/kubernetes/kubelet.conf, so it is never renewed" in text
    assert "docs/machine-import.md, Static kubelet certificates" in text
    fixed = replace(WELL, certificate="/etc/kubernetes/kubelet.crt")
    ((level, text),) = told(fixed)
    assert level is Level.REFUSED and "/etc/kubernetes/kubelet.crt" in text
    assert told(replace(WELL, credential="other", certificate="", rotates=False)) == []


def test_f26_a_host_outside_kubernetes_is_not_asked_for_a_kubelet() -> None:
    outside = replace(WANTED, expects_node=False)
    assert told(replace(WELL, kubelet=False, credential="embedded"), outside) == []
    ((level, text),) = told(WELL, outside)
    assert level is Level.WARNING and "leave out --node none" in text


def test_a_host_whose_kubelet_a_component_installs_has_none_of_another() -> None:
    joins = replace(WANTED, joins_by_token=True)
    assert told(replace(WELL, kubelet=False, credential=""), joins) == []
    ((level, text),) = told(WELL, joins)
    assert level is Level.REFUSED and "leave out --node join" in text
    again = replace(WELL, agent=WANTED.machine)
    assert told(again, joins) == [], "the import goes on after the component has installed it"


@pytest.mark.parametrize(
    ("ahead", "uncertain", "level"),
    [
        (4.0, 0.1, None),
        (6.0, 0.1, Level.WARNING),
        (-59.0, 0.1, Level.WARNING),
        (-61.0, 0.1, Level.REFUSED),
        (3600.0, 1.0, Level.REFUSED),
        (62.0, 3.0, Level.WARNING),
        (9.0, 5.0, None),
    ],
)
def test_a_clock_is_judged_by_what_it_is_off_at_the_least(
    ahead: float, uncertain: float, level: Level | None
) -> None:
    found = told(WELL, clock=ClockOffset(ahead, uncertain))
    assert [one for one, _ in found] == ([] if level is None else [level])


def test_refusals_come_before_warnings_and_all_are_told_at_once() -> None:
    found = told(replace(WELL, units=("salt-minion.service",), reach="OSError x", agent="other"))
    assert [level for level, _ in found] == [Level.REFUSED, Level.REFUSED, Level.WARNING]


def test_a_host_of_this_machine_goes_on_and_its_package_needs_no_room() -> None:
    assert told(replace(WELL, agent="sh-113", package="0.3.1", free={"/opt": 10})) == []


def test_half_installed_packages_do_not_count_as_installed() -> None:
    assert parse(ANSWER.replace("package", "package iU 0.3.1")).package == ""
    assert parse(ANSWER.replace("package", "package ii 0.3.1")).package == "0.3.1"


def test_an_answer_that_was_cut_off_is_incomplete() -> None:
    assert not parse(ANSWER.removesuffix("end yes\n")).complete
    assert not parse("").complete


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_probe_is_valid_shell(shell: str) -> None:
    script = probe_script("https://[fd00::1]:6443", "-----BEGIN CERTIFICATE-----\nx\n")
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "@" not in script
    assert "python3 - fd00::1 6443" in script
