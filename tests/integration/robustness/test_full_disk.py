"""No room on a disk costs what would have been written there, says so, and stops no act."""

import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from support.clock import T0
from support.running import until

from kubenode.runtime.audit import AuditLine, AuditLog, RotatedFile
from remedy.bundles.folder import FolderStore
from remedy.bundles.port import StoreFailed

FULL = Path("/dev/full")


async def test_a_full_disk_of_the_audit_log_is_told_once_and_what_is_lost_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = CollectorRegistry()
    log = AuditLog(RotatedFile(FULL), registry, lambda: T0, waiting=3)
    with caplog.at_level(logging.WARNING):
        for n in range(20):
            log.write(AuditLine(T0, "remedy", "kubenode-remedy", "Cordon", "Done", job=f"job-{n}"))
        await until(lambda: "audit lines cannot be written" in caplog.text, 30)
        log.close(5)
    lost = registry.get_sample_value("kubenode_audit_lines_total", {"outcome": "lost"})
    assert lost is not None and lost >= 16
    told = [r for r in caplog.records if r.message == "audit lines cannot be written"]
    assert [getattr(record, "why", "") for record in told] == ["[Errno 28] No space left on device"]


async def test_a_bundle_that_finds_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(b"x" * 100_000)
    home = tmp_path / "kept" / "host"
    home.mkdir(parents=True)
    (home / ".b.tar.gz.new").symlink_to(FULL)  # the disk is full while it is written
    with pytest.raises(StoreFailed, match="No space left"):
        await FolderStore(tmp_path / "kept").put("host", "b.tar.gz", made)
    assert list(home.iterdir()) == []
