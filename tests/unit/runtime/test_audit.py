"""The audit log: lines in order, files that turn, and a disk that fails costs lines alone."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import T0

from kubenode.runtime.audit import LONGEST, VERSION, AuditLine, AuditLog, RotatedFile


def a_line(n: int = 0, **more: Any) -> AuditLine:
    return AuditLine(T0, "remedy", "kubenode-remedy", "Cordon", "Done", job=f"job-{n}", **more)


class Disk:
    """A sink with levers: it hangs while `open` is not set, and fails while `broken`."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.broken = False
        self.open = threading.Event()
        self.open.set()
        self.tried = threading.Semaphore(0)

    def put(self, raw: bytes) -> None:
        self.tried.release()
        assert self.open.wait(20)
        if self.broken:
            raise OSError(5, "the disk is on fire")
        self.raw.append(raw)

    def close(self) -> None: ...

    def jobs(self) -> list[str]:
        return [json.loads(raw).get("job", "") for raw in self.raw]


@pytest.fixture
def disk() -> Iterator[Disk]:
    found = Disk()
    yield found
    found.open.set()


def a_log(disk: Disk, waiting: int = 100) -> tuple[AuditLog, CollectorRegistry]:
    registry = CollectorRegistry()
    return AuditLog(disk, registry, lambda: T0, waiting), registry


def counted(registry: CollectorRegistry, outcome: str) -> float:
    return registry.get_sample_value("kubenode_audit_lines_total", {"outcome": outcome}) or 0.0


def test_a_line_is_one_json_object_without_what_is_empty() -> None:
    line = json.loads(a_line(request_id="r0s1a1", why="rung 0\nstep 1").encoded())
    assert line == {
        "at": "2026-01-01T12:00:00Z",
        "by": "remedy",
        "who": "kubenode-remedy",
        "what": "Cordon",
        "outcome": "Done",
        "why": "rung 0\nstep 1",
        "job": "job-0",
        "requestID": "r0s1a1",
        "audit": VERSION,
    }
    assert a_line(why="rung 0\nstep 1").encoded().count(b"\n") == 1


def test_a_long_text_is_cut() -> None:
    assert len(json.loads(a_line(why="x" * 5000).encoded())["why"]) == LONGEST


def test_lines_are_written_in_order_and_all_at_the_end(disk: Disk) -> None:
    log, registry = a_log(disk)
    for n in range(50):
        log.write(a_line(n))
    log.close()
    assert disk.jobs() == [f"job-{n}" for n in range(50)]
    assert counted(registry, "written") == 50 and counted(registry, "lost") == 0


def test_a_disk_that_hangs_blocks_nobody_and_loses_what_finds_no_room(disk: Disk) -> None:
    log, registry = a_log(disk, waiting=10)
    disk.open.clear()
    log.write(a_line())
    assert disk.tried.acquire(timeout=20)
    for n in range(1, 31):
        log.write(a_line(n))  # returns: this thread is not the disk's
    assert counted(registry, "lost") == 20
    disk.open.set()
    log.close(20)
    lines = [json.loads(raw) for raw in disk.raw]
    assert [line.get("job") for line in lines if "job" in line] == [f"job-{n}" for n in range(11)]
    [told] = [line for line in lines if line["what"] == "Lost"]
    assert "20 lines before this one are lost" in told["why"]


def test_a_disk_that_fails_is_tried_again_and_told_once(
    disk: Disk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubenode.runtime.audit.RETRY_SECONDS", 0.001)
    log, registry = a_log(disk)
    disk.broken = True
    log.write(a_line())
    for _ in range(3):
        assert disk.tried.acquire(timeout=20)
    disk.broken = False
    log.write(a_line(1))
    log.close(20)
    assert disk.jobs() == ["job-0", "job-1"]
    assert counted(registry, "lost") == 0
    assert [r.message for r in caplog.records] == ["audit lines cannot be written"]


def test_a_process_ends_although_its_disk_hangs(disk: Disk) -> None:
    log, _ = a_log(disk)
    disk.open.clear()
    log.write(a_line())
    log.close(0.01)
    log.write(a_line(1))


class TestFile:
    def test_a_full_file_turns_and_the_oldest_goes(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "audit.jsonl"
        file = RotatedFile(path, rotate=30, backup_count=2)
        for n in range(8):
            file.put(b"%014d\n" % n)  # two fit
        file.close()
        found = {each.name: each.read_bytes() for each in path.parent.iterdir()}
        assert sorted(found) == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
        kept = found["audit.jsonl.2"] + found["audit.jsonl.1"] + found["audit.jsonl"]
        assert [int(line) for line in kept.splitlines()] == [2, 3, 4, 5, 6, 7]

    def test_a_restart_goes_on_where_it_was(self, tmp_path: Path) -> None:
        path = tmp_path / "audit.jsonl"
        for text in (b"one\n", b"two\n"):
            file = RotatedFile(path)
            file.put(text)
            file.close()
        assert path.read_bytes() == b"one\ntwo\n"
        assert path.stat().st_mode & 0o007 == 0, "others do not read it"

    def test_a_folder_that_is_none_is_an_error_of_the_disk(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError):
            RotatedFile(tmp_path / "file" / "audit.jsonl").put(b"line\n")
