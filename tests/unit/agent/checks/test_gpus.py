"""GPUs, by what a stand-in for NVML says: no GPU is at hand where tests run."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.watched import Tree

from agent.detectors.checks.host import gpu
from agent.host.files import HostRoot


class NVMLError(Exception):
    pass


class Nvml:
    """As pynvml answers. `gpus`: by index; None for one that fell off its bus."""

    NVMLError = NVMLError
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_NVLINK_MAX_LINKS = 1, 0, 4
    nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
    nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80

    def __init__(self, *gpus: "Gpu | None") -> None:
        self.gpus = list(gpus)

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> "Gpu":
        if (found := self.gpus[index]) is None:
            raise NVMLError("GPU is lost")
        return found

    def nvmlDeviceGetUUID(self, device: "Gpu") -> str:
        return device.name

    def nvmlDeviceGetTotalEccErrors(self, device: "Gpu", kind: int, counter: int) -> int:
        if device.errors is None:
            raise NVMLError("Not Supported")
        return device.errors

    def nvmlDeviceGetRemappedRows(self, device: "Gpu") -> tuple[int, int, int, int]:
        return 0, 0, int(device.pending), int(device.failed)

    def nvmlDeviceGetRetiredPagesPendingStatus(self, device: "Gpu") -> int:
        raise NVMLError("Not Supported")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device: "Gpu") -> int:
        return device.slowed

    def nvmlDeviceGetNvLinkState(self, device: "Gpu", link: int) -> int:
        if link >= len(device.links):
            raise NVMLError("Not Supported")
        return int(device.links[link])


class Gpu:
    def __init__(self, name: str) -> None:
        self.name = name
        self.errors: int | None = 0
        self.pending = self.failed = False
        self.slowed = 1  # idle
        self.links = [True, True, False]


def faults(gpus: gpu.GpuCheck) -> set[str]:
    return {kind for kind, finding in gpus.inspect().items() if finding.faulty}


def test_each_trouble_of_a_gpu_has_its_condition_and_clears() -> None:
    one, two = Gpu("GPU-1"), Gpu("GPU-2")
    looked = gpu.GpuCheck(0, lambda: Nvml(one, two))
    assert faults(looked) == set()
    two.errors, two.pending, two.failed, two.slowed, two.links = 3, True, True, 0x41, [True]
    assert faults(looked) == {
        *("GPUDoubleBitEccError", "NvidiaRemappingRowsRequireReset"),
        *("NvidiaRemappingRowsFailed", "GPUClockThrottling", "NVLinkStatusInactive"),
    }
    assert "GPU-2" in looked.inspect()["GPUDoubleBitEccError"].message
    two.errors, two.pending, two.failed, two.slowed, two.links = None, False, False, 0, [True, True]
    assert faults(looked) == set()


def test_a_gpu_that_fell_off_its_bus_is_missing() -> None:
    nvml = Nvml(Gpu("GPU-1"), Gpu("GPU-2"))
    looked = gpu.GpuCheck(0, lambda: nvml)
    assert faults(looked) == set()
    nvml.gpus[1] = None
    found = looked.inspect()["GPUMissing"]
    assert found.faulty
    assert "1 of 2 GPUs answer: GPU 1: GPU is lost" in found.message
    nvml.gpus.pop()  # after a boot that no longer finds it
    assert looked.inspect()["GPUMissing"].faulty


def test_gpus_that_the_driver_never_had_are_counted_on_the_bus(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number, vendor in enumerate(("0x10de", "0x10de", "0x8086")):
        tree.write(f"sys/bus/pci/devices/0000:0{number}:00.0/vendor", f"{vendor}\n")
        tree.write(f"sys/bus/pci/devices/0000:0{number}:00.0/class", "0x030200\n")
    looked = gpu.GpuCheck(0, lambda: Nvml(Gpu("GPU-1")), str(tree))
    assert "1 of 2" in looked.inspect()["GPUMissing"].message
    assert "1 of 8" in gpu.GpuCheck(8, lambda: Nvml(Gpu("GPU-1"))).inspect()["GPUMissing"].message


LIBRARY = """
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
"""
COUNT = """
import sys
from agent.detectors.checks.host.gpu import host_nvml
from agent.host.files import HostRoot
nvml = host_nvml(HostRoot(sys.argv[1]))
nvml.nvmlInit()
print(nvml.nvmlDeviceGetCount())
"""


def test_in_a_pod_nvml_is_that_of_the_hosts_driver(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (tmp_path / "opt").mkdir()
    (tmp_path / "nvml.c").write_text(LIBRARY)
    made = tmp_path / "opt/libnvidia-ml.so.570"
    name = f"-Wl,-soname,{gpu.NVML}"
    subprocess.run(["cc", "-shared", name, "-o", made, tmp_path / "nvml.c"], check=True)
    (folder / gpu.NVML).symlink_to("/opt/libnvidia-ml.so.570")
    argv = [sys.executable, "-c", COUNT, str(tmp_path)]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "3\n"


def test_a_host_without_the_drivers_library_is_told(tmp_path: Path) -> None:
    nowhere = HostRoot(str(tmp_path))
    with pytest.raises(OSError, match=f"NVML: the host has no {gpu.NVML} in /usr/lib"):
        gpu.GpuCheck(0, lambda: gpu.host_nvml(nowhere), str(tmp_path)).inspect()


def test_without_nvml_nothing_is_said() -> None:
    def none() -> Nvml:
        raise ImportError("pynvml")

    with pytest.raises(OSError, match="extra gpu"):
        gpu.GpuCheck(0, none).inspect()
