"""A line counts by who wrote it, as the kernel and journald attest it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import FakeClock
from support.log_sources import Heard

from agent.detectors.logs.entry import decode, line_of, message_of
from agent.detectors.logs.kmsg import KmsgSource
from agent.detectors.logs.line import ANYBODY, KERNEL, MANAGER
from agent.detectors.logs.pack import Pack, PackRule, build_pack, our_program
from agent.detectors.logs.program import join
from agent.detectors.logs.watch import begin, watch

NOW = datetime(2026, 1, 10, 10, 0, 30, tzinfo=UTC)
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python"
KUBELET = {
    "_TRANSPORT": "stdout",
    "_PID": "812",
    "_UID": "0",
    "_EXE": "/usr/bin/kubelet",
    "_SYSTEMD_UNIT": "kubelet.service",
    "_SYSTEMD_SLICE": "system.slice",
    "_SYSTEMD_CGROUP": "/system.slice/kubelet.service",
    "SYSLOG_IDENTIFIER": "kubelet",
}
CONTAINER = f"cri-containerd-{'4f' * 32}.scope"
POD = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/" + CONTAINER


def entry(**fields: Any) -> bytes:
    whole = {"__REALTIME_TIMESTAMP": str(int(NOW.timestamp() * 1e6)), "__CURSOR": "s=1", **fields}
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("fields", "origin"),
    [
        ({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0"}, KERNEL),
        ({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "1"}, ANYBODY),
        ({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "3", "SYSLOG_IDENTIFIER": "kernel"}, ANYBODY),
        ({"_TRANSPORT": "kernel"}, ANYBODY),
        ({"_TRANSPORT": "syslog", "SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel"}, ANYBODY),
        ({"_TRANSPORT": "journal", "_PID": "1", "_SYSTEMD_UNIT": "init.scope"}, MANAGER),
        ({"_TRANSPORT": "syslog", "_PID": "77", "SYSLOG_IDENTIFIER": "systemd"}, ANYBODY),
        ({**KUBELET, "_SYSTEMD_CGROUP": "/system.slice/kubelet.service"}, "kubelet.service"),
        (KUBELET | {"_SYSTEMD_UNIT": "user@1000.service", "_SYSTEMD_SLICE": "user-1000.slice"},
         ANYBODY),
        (KUBELET | {"_SYSTEMD_USER_UNIT": "kubelet.service"}, ANYBODY),
        (KUBELET | {"_SYSTEMD_SLICE": "user-1000.slice"}, ANYBODY),
        (KUBELET | {"_SYSTEMD_UNIT": CONTAINER, "_SYSTEMD_CGROUP": POD}, ANYBODY),
        (KUBELET | {"_SYSTEMD_CGROUP": "/system.slice/kubelet.service/" + "ab" * 32}, ANYBODY),
        (KUBELET | {"_SYSTEMD_CGROUP": "/kubepods/pod1/x"}, ANYBODY),
        (KUBELET | {"_SYSTEMD_UNIT": ["kubelet.service", "x.service"]}, ANYBODY),
        (KUBELET | {"_SYSTEMD_UNIT": ""}, ANYBODY),
        ({"SYSLOG_IDENTIFIER": "kubelet", "UNIT": "kubelet.service"}, ANYBODY),
    ],
)  # fmt: skip
def test_who_wrote_an_entry(fields: dict[str, Any], origin: str) -> None:
    line = line_of(decode(entry(MESSAGE="x", **fields)))
    assert line is not None
    assert line.origin == origin


def test_a_tenant_that_writes_to_the_kernels_log_is_not_the_kernel() -> None:
    """Every user space line in /dev/kmsg has a facility of its own, even if it asks for 0."""
    program = our_program()
    source = KmsgSource(FakeClock(NOW), uptime=lambda: 10.0)
    told = {}
    for number, priority in enumerate((11, 8, 27, 3)):
        (line,) = source.took(f"{priority},{number},0,-;{XID}\n".encode(), Heard(), NOW)
        told[priority] = watch(program, begin(program, NOW)[0], line, NOW)[1]
    assert [priority for priority, reports in told.items() if reports] == [3]


def test_a_tenants_line_in_the_journal_counts_for_nothing() -> None:
    program = our_program()
    state, _ = begin(program, NOW)
    tenants = [
        {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "1", "SYSLOG_IDENTIFIER": "kernel"},
        {"_TRANSPORT": "syslog", "SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel"},
        {"_TRANSPORT": "stdout", "_SYSTEMD_UNIT": CONTAINER, "_SYSTEMD_CGROUP": POD},
    ]
    for tenant in tenants:
        line = line_of(decode(entry(MESSAGE=XID, **tenant)))
        assert line is not None
        assert watch(program, state, line, NOW) == (state, [])


def test_a_units_line_counts_only_for_its_user_and_its_program() -> None:
    rule = PackRule(pattern="x509", source="s", reason="CertificateNotValid")
    pack = Pack(detector="d", origins=["kubelet.service"], exes=["kubelet"], rule=[rule])
    program = join([build_pack("p", pack)])
    state, _ = begin(program, NOW)

    def counts(**fields: str) -> bool:
        line = line_of(decode(entry(MESSAGE="x509: expired", **(KUBELET | fields))))
        assert line is not None
        return bool(watch(program, state, line, NOW)[1])

    assert counts()
    assert not counts(_UID="1000")
    assert not counts(_UID="")
    assert not counts(_EXE="/tmp/kubelet-not")
    assert not counts(_EXE="")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ([104, 105, 255], "hi\ufffd"),
        (["one", "two"], "one\ntwo"),
        (None, ""),
        ([[104, 105], "two"], "hi\ntwo"),
        ([300], ""),
    ],
)
def test_a_message_that_is_no_plain_text(value: Any, text: str) -> None:
    assert message_of(value) == text


def test_an_entry_of_an_earlier_boot_is_known_as_such() -> None:
    boot = "0f1e2d3c-0000-4000-8000-000000000001"
    for of, earlier in ((boot.replace("-", ""), False), ("f" * 32, True), ("", True)):
        line = line_of(decode(entry(MESSAGE="x", _BOOT_ID=of)), boot)
        assert line is not None
        assert line.earlier is earlier


def test_an_earlier_boots_line_sets_no_condition_that_a_boot_ends() -> None:
    program = our_program()
    state, _ = begin(program, NOW)
    boot = "0f1e2d3c-0000-4000-8000-000000000001"
    kernel = {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "_BOOT_ID": "f" * 32}
    text = "XFS (sda1): Log I/O Error (0x2) detected. Shutting down filesystem."
    line = line_of(decode(entry(MESSAGE=text, **kernel)), boot)
    assert line is not None
    assert watch(program, state, line, NOW) == (state, [])
    smartd = KUBELET | {
        "_SYSTEMD_UNIT": "smartd.service",
        "_SYSTEMD_CGROUP": "/system.slice/smartd.service",
        "_BOOT_ID": "f" * 32,
    }
    text = "Device: /dev/sdb [SAT], 128 Currently unreadable (pending) sectors"
    line = line_of(decode(entry(MESSAGE=text, **smartd)), boot)
    assert line is not None
    assert len(watch(program, state, line, NOW)[1]) == 1


VALUES = st.recursive(
    st.none() | st.text(max_size=8) | st.integers(-5, 300) | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner,
                                                                max_size=2),
    max_leaves=6,
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["MESSAGE", "_TRANSPORT", "_PID", "_UID", "_SYSTEMD_UNIT", "_BOOT_ID",
                         "__REALTIME_TIMESTAMP", "__CURSOR", "SYSLOG_FACILITY", "X"]),
        VALUES,
    )
)  # fmt: skip
def test_no_entry_is_more_than_unreadable(fields: dict[str, Any]) -> None:
    try:
        read = decode(json.dumps(fields))
    except ValueError:
        return
    line_of(read, "boot")
