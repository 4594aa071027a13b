"""Health of disks from SMART and the health log of NVMe devices, by smartctl's JSON.

It is off by default, because it needs smartmontools on the host. It does not wake sleeping disks.
100 bad sectors: node-problem-detector's disk monitor. Exit bits: smartctl(8).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.detectors.checks import Finding, Findings
from agent.detectors.checks.programs import Ran, Runner
from agent.probes import CannotAnswer

CONDITION = "DiskSMARTProblem"
SCAN = ("smartctl", "--scan-open", "--json")
SECONDS = 30.0
OUTPUT_BYTES = 1 << 20
MOST_DISKS = 64
_NOT_READ = 0b11
"""Exit bits: the command line was wrong, or the device could not be opened."""
_SECTORS = {5: "reallocated", 197: "pending", 198: "uncorrectable"}
"""ATA attributes whose raw value counts bad sectors."""


class Smart:
    """Implements Check. devices: such as /dev/sda; all disks if empty."""

    name = "smart"
    conditions = (CONDITION,)

    def __init__(self, devices: Sequence[str], sectors: int, programs: Runner) -> None:
        self._devices, self._sectors, self._programs = tuple(devices), sectors, programs

    async def inspect(self) -> Findings:
        devices = [(device, "auto") for device in self._devices] or await self._scan()
        faults, unread = [], []
        for device, kind in devices[:MOST_DISKS]:
            argv = ["smartctl", "--json", "--all", "--nocheck=standby", f"--device={kind}", device]
            ran = await self._programs.run(argv, SECONDS, OUTPUT_BYTES)
            try:
                if why := judge(_parse_output(ran), self._sectors):
                    faults.append((device, *why))
            except CannotAnswer as error:
                unread.append(f"{device}: {error}")
        return {CONDITION: sum_up(faults, unread, len(devices))}

    async def _scan(self) -> list[tuple[str, str]]:
        report = _parse_output(await self._programs.run(SCAN, SECONDS, OUTPUT_BYTES))
        devices = report.get("devices", [])
        return [(str(device["name"]), str(device.get("type", "auto"))) for device in devices]


def sum_up(faults: list[tuple[str, str, str]], unread: list[str], count: int) -> Finding:
    """Combine the results. faults: device, reason, why. Raises CannotAnswer if no disk was
    readable.
    """
    if faults:
        message = "; ".join(f"{device}: {why}" for device, _, why in faults)
        return Finding(True, faults[0][1], message)
    if unread and len(unread) >= count:
        raise CannotAnswer("; ".join(unread))
    return Finding(False, "DisksAreWell", f"{count - len(unread)} disks report no failure")


def judge(report: Mapping[str, Any], sectors: int) -> tuple[str, str] | None:
    """Return reason and description of a disk's worst fault; None for a healthy disk."""
    if report.get("smart_status", {}).get("passed") is False:
        return "DiskIsFailing", "its own overall assessment is FAILED"
    log = report.get("nvme_smart_health_information_log", {})
    if warning := log.get("critical_warning", 0):
        return "NVMeCriticalWarning", f"critical warning {warning:#04x}"
    if log and log.get("available_spare", 100) < log.get("available_spare_threshold", 0):
        return "NVMeSpareUsedUp", f"spare blocks {log['available_spare']} %, below its threshold"
    if log.get("percentage_used", 0) >= 100:
        return "NVMeWornOut", f"{log['percentage_used']} % of its rated writes"
    for row in report.get("ata_smart_attributes", {}).get("table", []):
        count = row.get("raw", {}).get("value", 0)
        if (what := _SECTORS.get(row.get("id"))) and count >= sectors:
            return "DiskBadSectors", f"{count} {what} sectors, limit {sectors}"
    return None


def _parse_output(ran: Ran) -> Mapping[str, Any]:
    if ran.code is None:
        raise CannotAnswer(ran.why)
    try:
        report = json.loads(ran.output)
    except ValueError as error:
        raise CannotAnswer(f"smartctl: exit status {ran.code}, no JSON") from error
    if ran.code & _NOT_READ:
        messages = report.get("smartctl", {}).get("messages", [])
        why = "; ".join(str(message.get("string", "")) for message in messages)
        raise CannotAnswer(f"smartctl: exit status {ran.code}: {why}")
    parsed: Mapping[str, Any] = report
    return parsed
