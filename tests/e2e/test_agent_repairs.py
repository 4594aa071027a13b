"""The repairs of the catalogue on a real host, under the agent's own unit and its hardening."""

import hashlib
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import Operator, an_agent_job, asked
from support.agent_pod import install_agent_pod, pod_binds
from support.agent_service import AGENT, EVERY_UNIT, STATE, AgentHost, binds, install_agent
from support.clock import T0
from support.control_plane import ControlPlane
from support.expired import pair_of
from support.hosts import Host, Hosts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NAME = "mend"
CONTRACT = Path(__file__).parents[1] / "hosts" / "port_contract.py"
DATA = "/srv/data"
SCRIPT = "/opt/scripts/greet"
GREETING = """#!/bin/sh
echo "hello $*"
while [ -e /opt/scripts/hold ]; do sleep 0.05; done
echo ran >> /opt/scripts/ran
grep CapEff /proc/self/status
"""
SETTINGS = f"""
[repairs]
mount_points = ["{DATA}"]
units = ["*"]

[scripts.greet]
path = "{SCRIPT}"
sha256 = "{hashlib.sha256(GREETING.encode()).hexdigest()}"
args = ["--quiet"]
params = {{device = ["eth0"]}}
"""
GPU = "GPU-00000000-0000-0000-0000-000000000001"
NVIDIA_SMI = f"""#!/bin/sh
case $1 in
  --query-gpu=*) echo "0, {GPU}, [N/A], P0" ;;
  --query-compute-apps=*) cat /opt/gpu-users ;;
  --gpu-reset) echo "$2" >> /opt/gpu-resets ;;
esac
"""
NETWORKING = """[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/ip -force -batch /etc/network/lines
"""
"""What applies a configuration, as Debian's unit of this name does, without its hosts' wonders."""


@pytest.fixture(scope="module", params=["service", "pod"])
def installation(request: pytest.FixtureRequest) -> str:
    """How the agent is installed."""
    return str(request.param)


@pytest.fixture(scope="module")
def disk(installation: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A block device of 16 MB with an ext4 on it."""
    image = tmp_path_factory.mktemp(f"disk-{installation}") / "image"
    subprocess.run(["truncate", "--size=16M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    loop = subprocess.run(
        ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    yield loop
    subprocess.run(["losetup", "--detach", loop], check=True)


@pytest.fixture(scope="module")
def actor(
    installation: str, hosts: Hosts, control_plane: ControlPlane, disk: str
) -> Iterator[AgentHost]:
    """The same repairs through the service and through the Pod of the DaemonSet."""
    name, in_pod = f"{NAME}-{installation[0]}", installation == "pod"
    host = hosts.boot(
        name,
        bind=pod_binds() if in_pod else binds(),
        args=[f"--bind={disk}", "--capability=CAP_NET_ADMIN"],
    )
    host.write(SCRIPT, GREETING, 0o755)
    host.write("/opt/scripts/ran", "")
    # A real host may write these; of the shared kernel's they are the host's network's own.
    host.run("mount", "-o", "remount,bind,rw", "/proc/sys")
    install = install_agent_pod if in_pod else install_agent
    made = install(host, control_plane, name)
    host.write(made.config, host.read(made.config).replace(EVERY_UNIT, SETTINGS))
    host.run("systemctl", "restart", AGENT)
    yield made
    host.destroy()


@pytest.fixture
def operator(control_plane: ControlPlane) -> Operator:
    return Operator(control_plane)


class Asked:
    """One agent step on the host; the answer."""

    def __init__(self, operator: Operator, actor: AgentHost) -> None:
        self.operator, self.host, self._node = operator, actor.host, actor.name
        self._count = 0

    def begin(self, action: str, seconds: int = 60, **given: Any) -> str:
        self._count += 1
        job = an_agent_job(f"{action.lower()}-{time.monotonic_ns()}", self._node, "a.service")
        step = {"agent": {"action": action, "timeout": f"{seconds}s", **given}}
        job["spec"]["ladder"] = [{"name": "act", "steps": [step]}]
        return self.operator.make(job, asked(self.host.boot_id(), valid=timedelta(minutes=3)))

    def __call__(self, action: str, seconds: int = 60, **given: Any) -> dict[str, Any]:
        job = self.begin(action, seconds, **given)
        try:
            return self.operator.wait_answer(job, 150)
        except AssertionError as error:
            raise AssertionError(self.host.journal(AGENT)) from error


@pytest.fixture
def ask(operator: Operator, actor: AgentHost) -> Asked:
    return Asked(operator, actor)


def test_the_ports_of_a_real_host_hold_to_their_contract(actor: AgentHost) -> None:
    program = f"{STATE}/port_contract.py"
    actor.host.write(program, CONTRACT.read_text())
    actor.run("python3", program)
    # As kubelet writes it: a link with a full path.
    folder = "/var/lib/kubelet/pki"
    pair = pair_of("mended", T0, T0 + timedelta(days=1)).decode()
    actor.host.write(f"{folder}/kubelet-client-1.pem", pair, 0o600)
    link = f"{folder}/kubelet-client-current.pem"
    actor.host.run("ln", "-sfn", f"{folder}/kubelet-client-1.pem", link)
    actor.run("python3", program, "certificate")
    actor.host.run("rm", "-r", folder)


def test_a_process_is_ended_by_its_exact_identity_alone(actor: AgentHost, ask: Asked) -> None:
    host = actor.host
    unit = "[Service]\nUser=nobody\nExecStart=/bin/sleep 1000\n"
    host.write("/etc/systemd/system/lost.service", unit)
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", "lost")
    pid = host.unit("lost", "MainPID")
    start = host.run("cat", f"/proc/{pid}/stat").stdout.rpartition(")")[2].split()[19]
    exe = host.run("readlink", f"/proc/{pid}/exe").stdout.strip()
    who = {"pid": pid, "startTime": start, "exe": exe, "unit": "lost.service"}
    other = ask("KillProcess", params={**who, "exe": "/bin/other"})
    assert other["state"] == "Refused" and exe in other["output"], other
    past = ask("KillProcess", params={**who, "startTime": str(int(start) - 1)})
    assert "had ended before" in past["output"] and host.unit("lost", "MainPID") == pid, past
    done = ask("KillProcess", params=who)
    assert done["state"] == "Done", done
    assert host.unit("lost", "ActiveState") == "inactive"


def test_rotated_logs_go_and_what_is_open_linked_or_elsewhere_stays(
    actor: AgentHost, ask: Asked
) -> None:
    host = actor.host
    folder = "/var/log/shop"
    script = f"""
set -e
mkdir -p {folder}/deep /opt/else
for name in {folder}/shop.log {folder}/shop.log.1 {folder}/shop.log.2.gz {folder}/deep/shop.log.3 \
    {folder}/open.log.1 /opt/else/shop.log.1; do
  head -c 200000 /dev/zero > $name
  touch -d '2 days ago' $name
done
head -c 200000 /dev/zero > {folder}/young.log.1
ln -sfn /opt/else {folder}/link
mkdir -p {folder}/bound
mount --bind /opt/else {folder}/bound
chown -R nobody {folder}
"""
    host.run("sh", "-c", script)
    host.run(
        *("systemd-run", "--unit=holder", "--property=Type=exec", "--quiet"),
        *("sh", "-c", f"exec sleep 1000 < {folder}/open.log.1"),
    )
    answer = ask("CleanDisk", params={"target": "logs", "free": "90"})
    assert answer["state"] == "Done", answer
    left = host.run("find", folder, "/opt/else", "-type", "f").stdout.split()
    gone = {f"{folder}/shop.log.1", f"{folder}/shop.log.2.gz", f"{folder}/deep/shop.log.3"}
    kept = {"shop.log", "open.log.1", "young.log.1", "bound/shop.log.1"}
    assert set(left) == {f"{folder}/{name}" for name in kept} | {"/opt/else/shop.log.1"}
    assert all(name in answer["output"] for name in gone)
    host.run("umount", f"{folder}/bound")


def test_the_journal_is_cut_to_what_may_stay(actor: AgentHost, ask: Asked) -> None:
    answer = ask("CleanDisk", params={"target": "journal", "free": "90", "keep": "1Mi"})
    assert answer["state"] == "Done", answer
    assert "removed journal" in answer["output"]


def test_images_that_no_container_uses_are_removed_from_containerd(
    actor: AgentHost, ask: Asked
) -> None:
    host = actor.host
    # Without an overlay below it containerd needs another snapshotter; images alone need none.
    host.run("systemctl", "start", "containerd", timeout=60)
    host.run("sh", "-c", _IMAGE)
    ctr = ("ctr", "--namespace", "k8s.io")
    host.run(*ctr, "containers", "create", "--snapshotter=native", "demo/used:1", "c1", "true")
    answer = ask("CleanDisk", params={"target": "images", "free": "90"})
    names = host.run(*ctr, "images", "list", "--quiet").stdout.split()
    left = sorted(name for name in names if name.startswith("demo/"))
    assert left == ["demo/alias:1", "demo/used:1"], (answer, names)
    assert answer["state"] == "Done" and "demo/spare:1" in answer["output"], answer
    refused = ask("CleanDisk", params={"target": "imagesInUse"})
    assert refused["state"] == "Refused", refused
    missing = ask("DeleteSandbox", params={"state": "error"})
    assert missing["state"] == "Failed" and "crictl is not installed" in missing["output"]


_IMAGE = r"""
set -e
cd "$(mktemp -d)"
sha() { sha256sum "$1" | cut -d' ' -f1; }
pack() {
  rm -rf blobs index.json; mkdir -p blobs/sha256 files; echo "$1" > files/name
  tar --numeric-owner -cf layer.tar -C files .
  layer=$(sha layer.tar); cp layer.tar blobs/sha256/$layer
  printf '{"architecture":"amd64","os":"linux","config":{"Cmd":["true"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' $layer > config
  config=$(sha config); cp config blobs/sha256/$config
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%s}]}' $config $(stat -c%s config) $layer $(stat -c%s layer.tar) > manifest
  manifest=$(sha manifest); cp manifest blobs/sha256/$manifest
  echo '{"imageLayoutVersion":"1.0.0"}' > oci-layout
  printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"io.containerd.image.name":"demo/%s:1"}}]}' $manifest $(stat -c%s manifest) $1 > index.json
  tar -cf ../$1.tar blobs oci-layout index.json
  ctr --namespace k8s.io images import --snapshotter=native --no-unpack ../$1.tar 2>/dev/null \
    || ctr --namespace k8s.io images import --snapshotter=native ../$1.tar
}
pack used; pack spare
ctr --namespace k8s.io images tag demo/used:1 demo/alias:1
"""  # noqa: E501  JSON of images


def test_a_file_system_is_made_writable_again_if_it_is_clean_and_not_after_errors(
    actor: AgentHost, ask: Asked, disk: str
) -> None:
    host = actor.host
    host.run("mkdir", "-p", DATA)
    # A host without udev knows no devices, so systemd would take the mount away at its next look.
    host.write("/etc/fstab", f"{disk} {DATA} ext4 rw,noauto,errors=remount-ro 0 2\n")
    host.run("mount", DATA)
    host.run("mount", "-o", "remount,ro", DATA)
    other = ask("RemountFilesystem", params={"mountPoint": "/srv"})
    assert other["state"] == "Refused" and DATA in other["output"], other
    done = ask("RemountFilesystem", params={"mountPoint": DATA})
    assert done["state"] == "Done", done
    host.run("touch", f"{DATA}/file")
    assert not [n for n in host.run("ls", "-A", DATA).stdout.split() if "kubenode" in n]

    # What the kernel does at an error: it counts it, and takes the file system away from writers.
    Path(f"/sys/fs/ext4/{Path(disk).name}/trigger_fs_error").write_text("made by a test")
    answer = ask("RemountFilesystem", params={"mountPoint": DATA})
    assert answer["state"] == "Refused" and "errors" in answer["output"], answer
    assert host.run("touch", f"{DATA}/other", check=False).returncode != 0
    host.run("umount", DATA)
    host.write("/etc/fstab", "")


def test_a_listed_script_runs_once_with_root_s_rights_and_nothing_but_its_own_bytes(
    actor: AgentHost, ask: Asked
) -> None:
    host = actor.host
    before = host.read("/opt/scripts/ran").count("ran")
    done = ask("RunScript", script="greet", params={"device": "eth0"})
    assert done["state"] == "Done" and "hello --quiet --device=eth0" in done["output"], done
    assert "CapEff:\t0000000000000000" not in done["output"], "it is there to repair"
    wrong = ask("RunScript", script="greet", params={"device": "eth0; reboot"})
    assert wrong["state"] == "Refused" and "one of eth0" in wrong["output"], wrong
    host.write(SCRIPT, GREETING + "echo more\n", 0o755)
    changed = ask("RunScript", script="greet")
    assert changed["state"] == "Refused" and "digest" in changed["output"], changed
    host.write(SCRIPT, GREETING, 0o755)
    assert host.read("/opt/scripts/ran").count("ran") == before + 1


def test_a_script_outlives_the_agent_and_its_end_is_told_by_the_next(
    actor: AgentHost, ask: Asked
) -> None:
    host = actor.host
    before = host.read("/opt/scripts/ran").count("ran")
    host.write("/opt/scripts/hold", "")
    job = ask.begin("RunScript", script="greet")
    _wait(lambda: _units(host, "kubenode-script-*"))
    host.run("systemctl", "kill", "--signal=KILL", AGENT)
    host.run("rm", "/opt/scripts/hold")
    answer = ask.operator.wait_answer(job, 150)
    assert answer["state"] == "Done" and "interrupted" in answer["output"], answer
    assert host.read("/opt/scripts/ran").count("ran") == before + 1
    assert not _units(host, "kubenode-script-*")


def test_limits_of_the_host_s_own_network_are_raised_and_read_back(
    actor: AgentHost, ask: Asked
) -> None:
    host = actor.host
    host.run("sysctl", "-w", "net.core.somaxconn=2048")
    params = {"name": "net.core.somaxconn", "factor": "2"}
    done = ask("SetSysctl", params=params)
    assert done["state"] == "Done" and "was 2048" in done["output"], done
    assert host.run("sysctl", "-n", "net.core.somaxconn").stdout.strip() == "4096"
    lower = ask("SetSysctl", params={"name": "net.core.somaxconn", "value": "128"})
    assert lower["state"] == "Refused" and "only raised" in lower["output"], lower
    other = ask("SetSysctl", params={"name": "kernel.core_pattern", "value": "1"})
    assert other["state"] == "Refused", other


def test_modules_are_those_of_a_list(actor: AgentHost, ask: Asked) -> None:
    other = ask("LoadModule", params={"name": "floppy"})
    assert other["state"] == "Refused" and "repairs.load_modules" in other["output"], other
    # The kernel is not this host's: modprobe may not load, and that is told.
    listed = ask("LoadModule", params={"name": "vxlan"})
    assert (listed["state"] == "Done") == ("loaded before" in listed["output"]), listed
    again = ask("ReloadModule", params={"name": "vxlan"})
    assert again["state"] == "Refused", again


def test_gpus_are_reset_when_nobody_uses_them(actor: AgentHost, ask: Asked) -> None:
    """By a stand-in for nvidia-smi that answers as the real one does: there is no GPU here."""
    actor.host.write("/usr/local/bin/nvidia-smi", NVIDIA_SMI, 0o755)
    actor.host.write("/opt/gpu-users", f"{GPU}, 4711\n")
    used = ask("ResetGPU")
    assert used["state"] == "Refused" and "used by 1 processes" in used["output"], used
    actor.host.write("/opt/gpu-users", "")
    done = ask("ResetGPU", params={"gpu": "0"})
    assert done["state"] == "Done" and GPU in done["output"], done
    assert actor.host.read("/opt/gpu-resets") == f"--id={GPU}\n"


def test_the_clock_is_brought_back_to_its_source(
    hosts: Hosts, actor: AgentHost, ask: Asked
) -> None:
    """The machine's clock is that of all hosts: chrony serves and follows it, and sets nothing."""
    host, source = actor.host, hosts.boot("source")
    _chrony(source, "local stratum 8\nallow\n")
    _chrony(host, "server 10.255.255.1\n")
    nobody = ask("SyncTime", seconds=20)
    assert nobody["state"] == "Refused" and "no time source" in nobody["output"], nobody
    _chrony(host, f"server {source.address} iburst\n")
    _wait(lambda: ",377," in _sources(host) or ",0," not in _sources(host))
    done = ask("SyncTime", seconds=60)
    assert done["state"] == "Done" and "offset" in done["output"], done
    source.destroy()


def _chrony(host: Host, lines: str) -> None:
    host.write("/etc/chrony/chrony.conf", f"{lines}cmdport 0\n")
    host.write(
        "/etc/systemd/system/chrony.service",
        "[Service]\nType=exec\nExecStart=/usr/sbin/chronyd -d -x\n"
        "ExecStartPre=/usr/bin/install -d -m 0750 -o _chrony -g _chrony /run/chrony\n",
    )
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "restart", "chrony")
    _wait(lambda: host.run("chronyc", "-c", "tracking", check=False).returncode == 0)


def _sources(host: Host) -> str:
    return host.run("chronyc", "-c", "sources", check=False).stdout


@pytest.fixture
def networked(actor: AgentHost) -> Host:
    """The host, whose network is configured by a service."""
    host = actor.host
    host.write("/etc/systemd/system/networking.service", NETWORKING)
    host.write("/etc/network/lines", "link set eth0 up\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "restart", "networking")
    return host


def test_the_network_is_restarted_and_put_back_when_the_api_server_is_lost(
    hosts: Hosts, networked: Host, ask: Asked
) -> None:
    good = ask("RestartNetwork", seconds=90)
    assert good["state"] == "Done", good
    before = networked.run("ip", "route").stdout
    networked.write("/etc/network/lines", f"route add blackhole {hosts.gateway}/32\n")
    bad = ask("RestartNetwork", seconds=90, params={"within": "6s"})
    assert bad["state"] == "Failed" and "put back; it is reached" in bad["output"], bad
    assert networked.run("ip", "route").stdout == before


def test_the_network_is_put_back_also_when_the_agent_is_killed_in_between(
    networked: Host, ask: Asked
) -> None:
    before = networked.run("ip", "route").stdout
    networked.write("/etc/network/lines", "address flush dev eth0\nlink set eth0 down\n")
    job = ask.begin("RestartNetwork", seconds=90, params={"within": "6s"})
    _wait(lambda: "inet " not in networked.run("ip", "address", "show", "eth0").stdout)
    networked.run("systemctl", "kill", "--signal=KILL", AGENT)
    answer = ask.operator.wait_answer(job, 150)
    assert answer["state"] == "Failed" and "put back; it is reached" in answer["output"], answer
    assert networked.run("ip", "route").stdout == before
    assert not _units(networked, "kubenode-network-*")


def test_a_cable_that_is_cut_meanwhile_is_told_once_it_is_back(networked: Host, ask: Asked) -> None:
    networked.write("/etc/network/lines", "link set eth0 up\n")
    job = ask.begin("RestartNetwork", seconds=90, params={"within": "5s"})
    _wait(lambda: _units(networked, "kubenode-network-*"))
    networked.plug(connected=False)
    try:
        _wait(lambda: not _units(networked, "kubenode-network-*"), 60)
    finally:
        networked.plug(connected=True)
    answer = ask.operator.wait_answer(job, 150)
    assert answer["state"] == "Failed" and "not reached" in answer["output"], answer


def _units(host: Host, pattern: str) -> list[str]:
    argv = ["systemctl", "list-units", "--all", "--plain", "--no-legend", pattern]
    return host.run(*argv).stdout.splitlines()


def _wait(seen: Any, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, "not seen in time"
        time.sleep(0.05)
