"""CollectDiagnostics: a bounded bundle without secrets, that never fills a disk."""

import os
import re
import tarfile
from collections import namedtuple
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.agent_world import World, a_job, until_answered
from support.clock import FakeClock

from agent.diagnostics import bundler
from agent.diagnostics.bundler import DiagnosticsCollector
from agent.diagnostics.bundles import MOST_BUNDLES, Bundles
from agent.diagnostics.redaction import HIDDEN, redacted
from agent.diagnostics.report import (
    EXCERPT_CHARACTERS,
    EXCERPT_LINE,
    About,
    excerpt,
    findings,
    page,
)
from agent.diagnostics.upload import BundleUploader
from agent.host import HostError
from agent.probes import CannotAnswer
from agent.probes import diagnostics as asking
from agent.probes.diagnostics import Diagnostics
from agent.wire import WireAnswer, WireJob

Space = namedtuple("Space", "f_bavail f_frsize")
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"


def a_collect(*bundle: str) -> WireJob:
    raw = msgspec.to_builtins(a_job(asked={"name": "collect"}))
    steps = [{"collect": {"bundle": list(bundle), "timeout": "1m"}}]
    raw["spec"]["ladder"] = [{"name": "look", "steps": steps}]
    return msgspec.convert(raw, WireJob)


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a host says to them."""
    parts: dict[str, Any] = {
        "dmesg": [["/bin/echo", "oops"]],
        "journal": [["/bin/echo", f"Authorization: Bearer {TOKEN}"], ["/nowhere/tool"]],
        "runtime": [["/bin/sh", "-c", "echo half; exit 3"]],
    }
    monkeypatch.setattr(bundler, "PARTS", parts)
    monkeypatch.setattr(asking, "PARTS", parts)


async def collected(tmp_path: Path, *bundle: str) -> WireAnswer:
    world = World(tmp_path / "requests", job=a_collect(*bundle))
    await until_answered(world)
    assert world.answer_now is not None
    return world.answer_now


async def test_a_bundle_has_its_parts_and_the_answer_says_where_it_is(tmp_path: Path) -> None:
    answer = await collected(tmp_path, "dmesg", "journal", "runtime")
    assert answer.state == "Done", answer
    path = Path(answer.output.partition(" ")[0])
    assert path.parent == tmp_path / "diagnostics" and mode(path) == 0o600
    texts = unpacked(path)
    assert set(texts) == {"dmesg.txt", "journal.txt", "runtime.txt", "report.html"}
    assert "oops" in texts["dmesg.txt"]
    assert TOKEN not in texts["journal.txt"] and HIDDEN in texts["journal.txt"]
    assert "/nowhere/tool: No such file or directory" in texts["journal.txt"]
    assert "half" in texts["runtime.txt"]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as bundle:
        files = {Path(m.name).name: bundle.extractfile(m) for m in bundle.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


async def test_the_answer_has_what_is_notable_on_lines_of_its_own(tmp_path: Path) -> None:
    answer = await collected(tmp_path, "dmesg", "journal", "runtime")
    place, *lines = answer.output.splitlines()
    assert "characters: dmesg " in place
    assert lines == ["$ /bin/echo oops", "oops"]


def test_an_excerpt_is_bounded_and_printable() -> None:
    kernel = "\n".join(f"{n} I/O error \x1b[31m\x00 {'x' * 500}" for n in range(100))
    lines = excerpt({"dmesg": kernel})
    assert len("\n".join(lines)) <= EXCERPT_CHARACTERS
    assert len(lines) > 1 and all(len(line) <= EXCERPT_LINE for line in lines)
    assert all(line.isprintable() for line in lines)


async def test_an_unknown_part_is_refused_by_name(tmp_path: Path) -> None:
    answer = await collected(tmp_path, "dmesg", "shadow")
    assert answer.state == "Refused" and "shadow" in answer.output


async def test_a_disk_that_is_nearly_full_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: Space(10, 4096))
    answer = await collected(tmp_path, "dmesg")
    assert answer.state == "Failed" and "are free" in answer.output
    assert list((tmp_path / "diagnostics").iterdir()) == []


async def test_the_oldest_bundles_go_first(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path / "diagnostics")
    for number in range(MOST_BUNDLES + 3):
        await bundles.save(f"b{number}", {"dmesg.txt": "x"})
    kept = {path.name for path in bundles.folder.iterdir()}
    assert len(kept) == MOST_BUNDLES and f"b{MOST_BUNDLES + 2}.tar.gz" in kept


async def test_a_folder_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="bundle in"):
        await Bundles(tmp_path / "file" / "diagnostics").save("b", {})


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=hunter22 user=bob", "hunter22"),
        ('"client_secret": "abc123def"', "abc123def"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("curl -H 'authorization: bearer abcdef'", "abcdef"),
        (f"token {TOKEN} was used", TOKEN),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "wJalrXUtnFEMI"),
        ("key AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("proxy http://bob:pa55@proxy:3128", "pa55"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
    ],
)
def test_secrets_are_hidden(text: str, secret: str) -> None:
    assert secret not in redacted(text) and HIDDEN in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "kubelet: Error: failed to renew token for pod web-1",
        "INFO: task dockerd:1042 blocked for more than 120 seconds.",
        "10.0.0.1:6443: connect: connection refused",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


ABOUT = About("n1", "n1", "boot-1", "2026-11-22T10:00:00.000Z", "RemedyOperationJob n1-0123456789")
SICK = {
    "dmesg": "$ journalctl\n"
    "a kernel: EXT4-fs (sda1): mounted\n"
    "b kernel: blk_update_request: I/O error, dev sda, sector 1\n",
    "units": "$ systemctl list-units --failed\n"
    "containerd.service loaded failed failed containerd container runtime\n"
    "\n\n$ systemctl list-jobs\nNo jobs running.\n",
    "disks": "$ df\nFilesystem Type 1K-blocks Used Available Use% Mounted on\n"
    "/dev/sda1 ext4 100 95 5 95% /\n/dev/sda2 ext4 100 89 11 89% /var\n",
    "pressure": "$ cat /proc/pressure/memory\nsome avg10=42.00 avg60=1.00 avg300=0.00 total=1\n"
    "full avg10=1.00 avg60=0.00 avg300=0.00 total=1\n",
    "processes": "STAT PID COMMAND\nSs 1 systemd\nD 4711 tar\nZ 12 sh\n",
}


def test_what_stands_out_is_said_first() -> None:
    found = list(findings(SICK))
    assert found == [
        "1 failed units: containerd.service",
        "/ is 95 % full: /dev/sda1 ext4 100 95 5 95% /",
        "tasks waited for memory in 42.00 % of the last 10 s",
        "1 processes in uninterruptible sleep: tar (4711)",
        "1 processes are zombies: sh (12)",
        "b kernel: blk_update_request: I/O error, dev sda, sector 1",
    ]


def test_a_healthy_host_is_said_to_be_so_and_of_which_parts() -> None:
    well = {"disks": "$ df\n/dev/sda1 ext4 100 10 90 10% /\n", "units": "$ systemctl\n\n"}
    assert list(findings(well)) == []
    assert "Nothing that these rules know, in: disks, units." in page(ABOUT, well)


def test_what_a_host_says_is_text_and_never_markup() -> None:
    shown = page(ABOUT, {"dmesg": "kernel: panic <script>alert(1)</script>\n"})
    assert "<script" not in shown and "&lt;script&gt;" in shown
    assert "http" not in shown, "it is read offline"


async def test_what_the_operator_keeps_is_told_with_its_place(tmp_path: Path) -> None:
    taken: list[Path] = []

    class Kept:
        async def put(self, path: Path) -> str:
            taken.append(path)
            return "s3://bundles/n1/x.tar.gz"

    world = World(tmp_path / "requests", job=a_collect("dmesg"), store=Kept())
    await until_answered(world)
    assert world.answer_now is not None and world.answer_now.state == "Done"
    assert world.answer_now.output.startswith("s3://bundles/n1/x.tar.gz; ")
    assert len(taken) == 1 and taken[0].exists()


async def test_an_operator_that_takes_nothing_fails_no_bundle(tmp_path: Path) -> None:
    class Away:
        async def put(self, path: Path) -> str:
            raise HostError("the operator takes no bundle: 503")

    world = World(tmp_path / "requests", job=a_collect("dmesg"), store=Away())
    await until_answered(world)
    assert world.answer_now is not None and world.answer_now.state == "Done"
    assert "on this host only: the operator takes no bundle: 503" in world.answer_now.output


def a_question(tmp_path: Path, store: BundleUploader | None = None) -> Diagnostics:
    clock = FakeClock()
    collector = DiagnosticsCollector(Bundles(tmp_path / "diagnostics"), clock, store)
    return Diagnostics(collector, World(tmp_path / "requests"), "n1", "n1")


async def test_a_person_gets_a_bundle_of_all_parts_under_the_name_they_gave(tmp_path: Path) -> None:
    answer = await a_question(tmp_path).answer({"name": "n1-20261122", "by": "ann"})
    path = Path(str(answer["path"]))
    assert path.name == "n1-20261122.tar.gz"
    texts = unpacked(path)
    assert set(texts) == {"dmesg.txt", "journal.txt", "runtime.txt", "report.html"}
    assert "ann" in texts["report.html"]
    assert answer["why"] == "no operator is set up to take a copy"
    assert answer["dmesg_characters"] == len(texts["dmesg.txt"])


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"name": "../../etc/x"}, "name '../../etc/x'"),
        ({"name": ""}, "name ''"),
        ({"name": "a", "bundle": "shadow"}, "bundle: shadow"),
    ],
)
async def test_a_question_that_makes_no_sense_is_answered_with_a_reason(
    args: dict[str, str], why: str, tmp_path: Path
) -> None:
    with pytest.raises(CannotAnswer, match=re.escape(why)):
        await a_question(tmp_path).answer(args)
