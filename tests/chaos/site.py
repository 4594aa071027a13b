"""The real control plane and the processes of the product, each a victim.

Two API servers stand on one etcd, as in any cluster that is taken seriously: blows fall on the one
that the product and the fleet use; the observer looks through the other, and misses nothing.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.control_plane import READY_SECONDS, ControlPlane
from support.daemons import Daemon, free_port
from support.defending import DEFENDER, GROUPS, REMEDY
from support.machine_world import CHARTS
from support.programs import KUBENODE
from support.redis_server import RedisServer
from support.remedy_cluster import install_crds

MACHINE = "system:serviceaccount:kubenode-system:kubenode-machine"
NAMESPACE = "kubenode-system"
NAMESPACES = (NAMESPACE, "kubenode-agents", "kubenode-components")
API_SERVER, REDIS = "kube-apiserver", "redis"
REPLICAS = {"remedy": 2, "defender": 2, "machine": 2}
OTHERS_WORK = "ServiceAccount,TaintNodesByCondition"
"""Admission that asks for controllers whose part the simulated fleet plays."""
CONTROLLERS = "serviceaccount-controller,serviceaccount-token-controller,namespace-controller"


@dataclass(frozen=True, slots=True)
class Site:
    """plane  the API server that blows fall on; `eyes` a kubeconfig of the other one
    victims  by name; those of the product are `programs`, not started yet
    folder   of their logs
    """

    plane: ControlPlane
    eyes: Path
    victims: dict[str, Daemon]
    programs: dict[str, Daemon]
    providers: Path


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """It ends everything that it started."""
    with ExitStack() as stack:
        plane = stack.enter_context(
            ControlPlane(
                scheduler=False,
                apiserver_args=(f"--disable-admission-plugins={OTHERS_WORK}",),
                controller_args=(f"--controllers={CONTROLLERS}",),
            )
        )
        redis = stack.enter_context(RedisServer(folder))
        second, eyes = _second(plane)
        stack.callback(second.kill)
        second.start()
        second.wait_until(lambda: _answers(plane, eyes), READY_SECONDS)
        install_crds(plane)
        for namespace in NAMESPACES:
            plane.kubectl("create", "namespace", namespace)
        for part in REPLICAS:
            plane.kubectl("apply", "-f", CHARTS / part / "rbac.yaml")
        providers = folder / "providers.yaml"
        programs = _programs(plane, redis.url, providers, folder)
        for program in programs.values():
            stack.callback(program.kill)
        others = {API_SERVER: plane.part(API_SERVER), REDIS: redis.daemon}
        yield Site(plane, eyes, {**programs, **others}, programs, providers)


def _second(plane: ControlPlane) -> tuple[Daemon, Path]:
    """Another API server on the same etcd, and a kubeconfig for it."""
    port = free_port()
    changed = {"--secure-port": str(port), "--cert-dir": str(plane.folder / "second-certs")}
    argv = []
    for word in plane.part(API_SERVER).argv:
        name = word.partition("=")[0]
        argv.append(f"{name}={changed[name]}" if name in changed else word)
    kubeconfig = plane.folder / "eyes.kubeconfig"
    plain = plane.kubeconfig.read_text()
    kubeconfig.write_text(plain.replace(plane.server, f"https://127.0.0.1:{port}"))
    return Daemon("second-apiserver", argv, plane.folder / "second-apiserver.log"), kubeconfig


def _answers(plane: ControlPlane, kubeconfig: Path) -> bool:
    words = ("--kubeconfig", kubeconfig, "get", "--raw", "/readyz")
    return plane.kubectl(*words, check=False).returncode == 0


def _programs(plane: ControlPlane, redis: str, providers: Path, folder: Path) -> dict[str, Daemon]:
    ports = [free_port() for _ in range(REPLICAS["defender"])]
    urls = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    ask = ("--defender-url", urls)
    made: dict[str, Daemon] = {}

    def add(part: str, number: int, user: str, *more: Any) -> None:
        name = f"{part}-{number}"
        kubeconfig = plane.kubeconfig_for(user, GROUPS)
        words = ("run", part, "--kubeconfig", kubeconfig, "--namespace", NAMESPACE)
        words += ("--health-port", str(free_port()), *more)
        made[name] = Daemon(name, [KUBENODE, *words], folder / f"{name}.log")

    for number, port in enumerate(ports):
        shared = ("--redis-url", redis, "--cluster", "chaos")
        add("defender", number, DEFENDER, "--listen-port", str(port), *shared)
    for number in range(REPLICAS["remedy"]):
        add("remedy", number, REMEDY, *ask, "--providers-file", providers)
    for number in range(REPLICAS["machine"]):
        add("machine", number, MACHINE, *ask)
    return made
