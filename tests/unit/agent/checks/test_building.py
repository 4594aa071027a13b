"""Which detectors an agent runs, and what is told of files that cannot be used."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.clock import FakeClock, settle
from support.npd_files import a_file, permanent
from support.watched import Heard

from agent import settings
from agent.detectors import CONFIG_INVALID
from agent.detectors.assembly import Complaints, detectors
from agent.detectors.checks.detector import CheckDetector
from agent.detectors.settings import Detectors, DiskSettings, PressureSettings, SmartSettings
from agent.host.systemd import SystemdHost
from agent.settings import AgentSettingsError


def built(given: Detectors, root: Path) -> dict[str, str]:
    """By condition, the detector that owns it."""
    host = SystemdHost("unix:path=/nowhere")
    found = detectors(given, host, FakeClock(), str(root))
    owners = [(kind, detector.name) for detector in found for kind in detector.conditions]
    assert max(Counter(kind for kind, _ in owners).values(), default=0) <= 1
    return dict(owners)


def test_by_default_what_costs_nothing_is_watched(tmp_path: Path) -> None:
    owned = built(Detectors(), tmp_path)
    for kind in (
        *("KubeletUnhealthy", "ContainerRuntimeUnhealthy", "FrequentKubeletRestart"),
        *("DiskProblem", "DiskReadonly", "FDProblem", "PIDProblem", "NTPProblem"),
        *("MemoryContentionPressure", "CertificateExpiring", "ProcessD"),
    ):
        assert kind in owned
    for kind in ("DiskSMARTProblem", "KubeProxyUnhealthy", "CPUContentionPressure", "GPUMissing"):
        assert kind not in owned


def test_each_can_be_switched(tmp_path: Path) -> None:
    given = Detectors(
        disk=DiskSettings(enabled=False),
        smart=SmartSettings(enabled=True),
        pressure=PressureSettings(cpu_pct=95, io_pct=0),
    )
    owned = built(given, tmp_path)
    assert "DiskProblem" not in owned
    assert "DiskContentionPressure" not in owned
    assert {"DiskSMARTProblem", "CPUContentionPressure"} <= owned.keys()


def test_gpus_are_watched_where_there_is_a_driver(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").touch()
    assert built(Detectors(), tmp_path)["GPUMissing"] == "gpu"


def write(folder: Path, name: str, data: Any) -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_a_configured_monitor_goes_before_what_is_built_in(tmp_path: Path) -> None:
    write(tmp_path, "ntp.json", a_file(permanent("/opt/check_ntp.sh")))
    owned = built(Detectors(npd_configs=("/*.json",)), tmp_path)
    assert owned["NTPProblem"] == "ntp-custom-plugin-monitor"
    assert owned["DiskProblem"] == "disk"


def complaints(folder: Path, pattern: str) -> str:
    """What is told of the files; whatever they are, the rest is watched."""
    given = Detectors(npd_configs=(f"/{pattern}",))
    assert "DiskProblem" in built(given, folder)
    host = SystemdHost("unix:path=/nowhere")
    found = detectors(given, host, FakeClock(), str(folder))
    told = [one.complaints for one in found if isinstance(one, Complaints)]
    return "\n".join(line for lines in told for line in lines)


async def test_a_check_of_several_conditions_leaves_only_the_one_that_is_taken(
    tmp_path: Path,
) -> None:
    data = a_file(permanent("/x", condition="FDProblem"))
    data["conditions"] = [{"type": "FDProblem", "reason": "NoFDProblem"}]
    write(tmp_path, "fd.json", data)
    given = Detectors(npd_configs=("/*.json",))
    owned = built(given, tmp_path)
    assert (owned["FDProblem"], owned["PIDProblem"]) == ("ntp-custom-plugin-monitor", "tables")
    heard, host = Heard(), SystemdHost("unix:path=/nowhere")
    found = detectors(given, host, FakeClock(), str(tmp_path))
    tables = next(detector for detector in found if detector.name == "tables")
    assert isinstance(tables, CheckDetector)
    await tables.check_once(heard)
    assert heard.history("PIDProblem")
    assert not heard.history("FDProblem")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("{", "is no JSON"),
        ([], "must be one of custom"),
        ({"plugin": "other"}, "must be one of custom"),
        (a_file(), "rules is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_the_rest_is_watched(
    tmp_path: Path, data: Any, why: str
) -> None:
    write(tmp_path, "bad.json", data)
    told = complaints(tmp_path, "*.json")
    assert told.startswith("/bad.json: ")
    assert why in told


def test_a_file_that_is_missing_is_named_and_an_empty_folder_is_not(tmp_path: Path) -> None:
    assert "none.json: no such file" in complaints(tmp_path, "none.json")
    assert complaints(tmp_path, "*.json") == ""


def test_of_two_files_for_one_condition_the_second_is_not_used(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write(tmp_path, name, a_file(permanent("/x")))
    told = complaints(tmp_path, "*.json")
    assert "b.json: condition NTPProblem is kept by" in told
    assert "a.json: leave one" in told


def test_monitors_are_read_below_the_root_of_the_host_through_its_links(tmp_path: Path) -> None:
    (tmp_path / "opt/npd").mkdir(parents=True)
    write(tmp_path / "opt/npd", "ntp.json", a_file(permanent("/opt/check_ntp.sh")))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/npd").symlink_to("/opt/npd")
    owned = built(Detectors(npd_configs=("/etc/npd/*.json",)), tmp_path)
    assert owned["NTPProblem"] == "ntp-custom-plugin-monitor"


async def test_files_that_are_not_used_are_told_as_events(tmp_path: Path) -> None:
    heard = Heard()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(Complaints(["x.json: why"], FakeClock()).run(heard))
        await settle()
        running.cancel()
    told = [(event.reason, event.message) for event in heard.events]
    assert told == [(CONFIG_INVALID, "x.json: why")]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("[detectors.disk]\nused_pct = 150", "$.detectors.disk.used_pct"),
        ("[detectors.disk]\nused_percent = 50", "used_percent"),
        ("[detectors.kubelet]\nevery_seconds = 0.1", "$.detectors.kubelet.every_seconds"),
        ("[detectors.units]\nnames = 'kubelet'", "$.detectors.units.names"),
    ],
)
def test_limits_out_of_range_are_named(tmp_path: Path, table: str, complaint: str) -> None:
    path = write(tmp_path, "agent.toml", f'node = "n"\nserver = "http://127.0.0.1:1"\n{table}\n')
    with pytest.raises(AgentSettingsError) as told:
        settings.load({}, str(path))
    assert complaint in str(told.value)


def test_limits_are_read_from_the_agent_s_file(tmp_path: Path) -> None:
    table = '[detectors]\nnpd_configs = ["/etc/npd/*.json"]\n[detectors.disk]\nused_pct = 80\n'
    path = write(tmp_path, "agent.toml", f'node = "n"\nserver = "http://127.0.0.1:1"\n{table}')
    given = settings.load({}, str(path)).detectors
    assert (given.npd_configs, given.disk.used_pct) == (("/etc/npd/*.json",), 80.0)
