"""NVIDIA GPUs as NVML reports them: number, memory errors, links and throttling.

pynvml is loaded only if there is a driver. Xid errors are not read here, because the log detector
reports them once from the kernel log, with their text. Conditions have the names of Azure's,
Alibaba's and Tencent's node problem detectors, which the rules know.
"""

import ctypes
import logging
from collections.abc import Callable, Mapping
from typing import Any

from agent.detectors.checks import Finding, Findings
from agent.host.files import HostRoot

log = logging.getLogger(__name__)

DRIVER = "proc/driver/nvidia/version"
NVML = "libnvidia-ml.so.1"
LIBRARY_FOLDERS = (
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"),
    "/home/kubernetes/bin/nvidia/lib64",
)
"""Debian and Ubuntu, Red Hat and SUSE, Container-Optimized OS."""
MISSING, DOUBLE_BIT, REMAP_FAILED, REMAP_PENDING, PAGES_PENDING, LINKS, THROTTLED = (
    "GPUMissing",
    "GPUDoubleBitEccError",
    "NvidiaRemappingRowsFailed",
    "NvidiaRemappingRowsRequireReset",
    "NvidiaPendingRetiredPages",
    "NVLinkStatusInactive",
    "GPUClockThrottling",
)
CONDITIONS = (*(MISSING, DOUBLE_BIT, REMAP_FAILED, REMAP_PENDING, PAGES_PENDING, LINKS, THROTTLED),)
_MESSAGES = {
    DOUBLE_BIT: ("UncorrectableECC", "uncorrectable memory errors since the driver was loaded"),
    REMAP_FAILED: ("RowRemapFailed", "a row of memory could not be remapped"),
    REMAP_PENDING: ("RowRemapPending", "a remapped row waits for a reset"),
    PAGES_PENDING: ("PageRetirementPending", "retired pages wait for a reset"),
    LINKS: ("NVLinkInactive", "an NVLink that was active is not"),
    THROTTLED: ("HardwareSlowdown", "slowed down by heat or by the power supply"),
}
_PCI_GPU = ("0x0300", "0x0302")
"""PCI classes of display and 3D controllers."""
_NVIDIA = "0x10de"


class GpuCheck:
    """Checks GPUs. Remembers the number of GPUs and the active links.

    expected: required number of GPUs; 0: those on the PCI bus, or the most seen so far
    load: returns pynvml or a substitute
    """

    def __init__(self, expected: int, load: Callable[[], Any], root: str = "/") -> None:
        self._expected, self._load, self._root = expected, load, root
        self._nvml: Any = None
        self._most = 0
        self._links: dict[str, frozenset[int]] = {}

    def inspect(self) -> Findings:
        """Check the GPUs. Raises OSError if NVML does not answer."""
        nvml = self._ready()
        self._most = max(self._most, self._expected or on_bus(self._root))
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self._nvml = None  # a reloaded driver needs a new initialisation
            raise OSError(f"NVML: {error}") from error
        lost, faults = [], {kind: list[str]() for kind in _MESSAGES}
        for index in range(count):
            try:
                device = nvml.nvmlDeviceGetHandleByIndex(index)
                name = _word(nvml.nvmlDeviceGetUUID(device))
            except nvml.NVMLError as error:
                lost.append(f"GPU {index}: {error}")
                continue
            for kind, bad in self._ask(nvml, device, name).items():
                if bad:
                    faults[kind].append(name)
        self._most = max(self._most, count)
        findings = {kind: judge(kind, names) for kind, names in faults.items()}
        return {MISSING: present(count - len(lost), self._most, lost), **findings}

    def _ready(self) -> Any:
        if self._nvml is None:
            try:
                nvml = self._load()
                nvml.nvmlInit()
            except ImportError as error:
                raise OSError("NVML: install nvidia-ml-py (the extra gpu)") from error
            except Exception as error:
                raise OSError(f"NVML: {error}") from error
            self._nvml = nvml
        return self._nvml

    def _ask(self, nvml: Any, device: Any, name: str) -> Mapping[str, bool]:
        """Query one GPU. A query that the device does not support counts as healthy."""

        def ask(question: Callable[[], Any], otherwise: Any) -> Any:
            try:
                return question()
            except nvml.NVMLError:
                return otherwise

        errors = ask(
            lambda: nvml.nvmlDeviceGetTotalEccErrors(
                device, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            ),
            0,
        )
        remapped = ask(lambda: nvml.nvmlDeviceGetRemappedRows(device), (0, 0, 0, 0))
        pages = ask(lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(device), 0)
        reasons = ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device), 0)
        slowed = (
            nvml.nvmlClocksThrottleReasonHwThermalSlowdown
            | nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown
        )
        return {
            DOUBLE_BIT: errors > 0,
            REMAP_PENDING: bool(remapped[2]),
            REMAP_FAILED: bool(remapped[3]),
            PAGES_PENDING: bool(pages),
            LINKS: self._link_lost(nvml, device, name),
            THROTTLED: bool(reasons & slowed),
        }

    def _link_lost(self, nvml: Any, device: Any, name: str) -> bool:
        active = set()
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                if nvml.nvmlDeviceGetNvLinkState(device, link):
                    active.add(link)
            except nvml.NVMLError:
                break  # no further links
        before = self._links.get(name, frozenset())
        self._links[name] = before | active
        return bool(before - active)


def present(count: int, most: int, lost: list[str]) -> Finding:
    if count < most:
        why = f": {'; '.join(lost)}" if lost else ""
        return Finding(True, "GPUMissing", f"{count} of {most} GPUs answer{why}")
    return Finding(False, "GPUsArePresent", f"{count} of {most} GPUs answer")


def judge(kind: str, names: list[str]) -> Finding:
    reason, what = _MESSAGES[kind]
    if names:
        return Finding(True, reason, f"{what}: {', '.join(names)}")
    return Finding(False, f"No{reason}", f"no GPU says: {what}")


def on_bus(root: str) -> int:
    """Return the number of NVIDIA GPUs on the PCI bus, whether or not the driver has them."""
    count, files = 0, HostRoot(root)
    for device in files.glob("/sys/bus/pci/devices/*"):
        try:
            vendor = files.read_text(f"{device}/vendor").strip()
            kind = files.read_text(f"{device}/class").strip()
        except OSError:
            continue
        count += vendor == _NVIDIA and kind.startswith(_PCI_GPU)
    return count


def host_nvml(files: HostRoot) -> Any:
    """Return pynvml over the library of the host's driver. Raises ImportError, OSError.

    The library must fit the driver, and an image has none. Once it is loaded, the loader gives it
    to pynvml, which names it without a folder.
    """
    if files.mounted:
        places = (f"{folder}/{NVML}" for folder in LIBRARY_FOLDERS)
        there = next((place for place in places if files.exists(place)), None)
        if there is None:
            raise OSError(f"the host has no {NVML} in {', '.join(LIBRARY_FOLDERS)}")
        ctypes.CDLL(str(files.path(there)), ctypes.RTLD_GLOBAL)
    import pynvml

    return pynvml


def _word(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
