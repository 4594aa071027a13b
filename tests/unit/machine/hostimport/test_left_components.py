"""What is told of components when a host is let go, from the records of its agent."""

import subprocess
import sys
from pathlib import Path

from agent.components.before import Before
from agent.components.model import ComponentApplyState, ComponentRecord, StoredComponent
from agent.components.ports import PackageSnapshot
from agent.components.records import FileRecords
from kubenode.runtime.components import wire
from kubenode.runtime.components.render import RenderedFile, RenderedFiles
from machine.hostimport.components import ComponentRemains, parse_remains, program

SECRET = "top-secret"


def kept(name: str, version: str) -> StoredComponent:
    source = wire.WireComponentSource(
        "apt", apt=wire.WirePackages([wire.WirePackage(name, version)])
    )
    files = (RenderedFile("/etc/x.conf", SECRET, salt="s"),)
    spec = wire.ComponentSpec(name, version, source)
    return StoredComponent(f"{name}-{version}", "1-0", spec, RenderedFiles(files), "Running")


def told(state: Path) -> tuple[ComponentRemains, ...]:
    ran = subprocess.run(
        [sys.executable, "-c", program(str(state))], capture_output=True, text=True, check=True
    )
    assert SECRET not in ran.stdout
    return parse_remains(ran.stdout)


def test_each_component_that_leaves_a_trace_is_named_and_no_secret_is(tmp_path: Path) -> None:
    records = FileRecords(tmp_path / "components" / "records")
    before = Before("apt", {"runc": PackageSnapshot("1.0"), "new": PackageSnapshot()})
    for record in (
        ComponentRecord(
            name="kept",
            state=ComponentApplyState.HEALTHY,
            applied=kept("kept", "2.0"),
            message=SECRET,
        ),
        ComponentRecord(name="gone", state=ComponentApplyState.ABSENT),
        ComponentRecord(
            name="old",
            state=ComponentApplyState.ABSENT,
            reason="Stays",
            message="runc 1.0: not to be had",
        ),
        ComponentRecord(name="missed", state=ComponentApplyState.ABSENT, before=before),
        ComponentRecord(name="lost", state=ComponentApplyState.FAILED, message=SECRET),
        ComponentRecord(
            name="agent", state=ComponentApplyState.HEALTHY, applied=kept("kubenode-agent", "0.3.1")
        ),
    ):
        records.save(record)
    (tmp_path / "components/records/torn.json").write_text("0 {")
    found = {one.name: str(one) for one in told(tmp_path)}
    assert found.keys() == {"kept", "old", "missed", "lost", "torn"}
    assert found["kept"].startswith("component kept 2.0")
    assert "not to be had" in found["old"] and "runc 1.0" in found["missed"]


def test_a_host_without_components_has_nothing_to_tell(tmp_path: Path) -> None:
    assert told(tmp_path) == ()
