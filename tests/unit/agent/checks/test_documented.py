"""docs/detectors.md names every condition and every setting."""

import re
from pathlib import Path

import msgspec
from support.clock import FakeClock

from agent.detectors.assembly import detectors
from agent.detectors.settings import Detectors, KubeProxySettings, PressureSettings, SmartSettings
from agent.host.systemd import SystemdHost

TEXT = (Path(__file__).parents[4] / "docs" / "detectors.md").read_text()


def test_every_condition_of_a_check_is_documented(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").touch()
    given = Detectors(
        kube_proxy=KubeProxySettings(enabled=True),
        smart=SmartSettings(enabled=True),
        pressure=PressureSettings(cpu_pct=90),
    )
    found = detectors(given, SystemdHost("unix:path=/nowhere"), FakeClock(), str(tmp_path))
    checks = [one for one in found if not type(one).__module__.startswith("agent.detectors.logs")]
    kinds = {kind for detector in checks for kind in detector.conditions}
    assert len(kinds) > 20
    assert sorted(kind for kind in kinds if f"`{kind}`" not in TEXT) == []


def test_every_setting_of_a_check_is_documented_with_its_default() -> None:
    for table in msgspec.structs.fields(Detectors):
        if table.name in ("npd_configs", "logs"):
            continue
        row = re.search(rf"^\| `\[detectors\.{table.name}\]` \|.*$", TEXT, re.MULTILINE)
        assert row, table.name
        for setting in msgspec.structs.fields(type(table.default)):
            if setting.name == "enabled":
                continue
            assert f"`{setting.name}`" in row[0], f"{table.name}.{setting.name}"
            if isinstance(setting.default, int | float):
                assert f"`{setting.name}` {setting.default:g}" in row[0]
