"""The health server over HTTP, and signals in a process of its own."""

import asyncio
import signal
import socket
import subprocess
import sys
import time

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from support.fake_kube import FakeKube
from support.running import following, running, until

from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import CannotStart
from kubenode.runtime.telemetry.health import HealthServer
from kubenode.runtime.telemetry.metrics import RuntimeMetrics


async def test_health_readiness_and_metrics_are_served(server: FakeKube, kube: Kube) -> None:
    registry = CollectorRegistry()
    metrics = RuntimeMetrics(registry)
    why = "nodes: not listed yet"
    health = HealthServer("127.0.0.1", 0, registry, {"informers": lambda: why})

    async def reconcile(key: str) -> Result:
        return DONE

    async with following(kube) as informer, running(health.run()), aiohttp.ClientSession() as http:
        metrics.informer(informer)
        controller = Controller("nodes", reconcile)
        metrics.controller("nodes", controller.queue)
        await until(lambda: health.port != 0)

        async def get(path: str) -> tuple[int, str]:
            async with http.get(f"http://127.0.0.1:{health.port}{path}") as response:
                return response.status, await response.text()

        assert await get("/healthz") == (200, "ok\n")
        assert await get("/readyz") == (503, "[-] informers: nodes: not listed yet\n")
        why = ""
        assert await get("/readyz") == (200, "[+] informers\n")
        code, page = await get("/metrics")
        assert code == 200
        assert 'kubenode_informer_lists_total{resource="nodes"} 1.0' in page
        assert (
            'kubenode_controller_reconciles_total{controller="nodes",outcome="error"} 0.0' in page
        )


async def test_a_port_that_is_taken_is_named_with_its_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        health = HealthServer("127.0.0.1", port, CollectorRegistry())
        with pytest.raises(CannotStart, match=f"port {port} on 127.0.0.1 is taken.*--health-port"):
            await asyncio.wait_for(health.run(), 5)


PROGRAM = """
import asyncio
from kubenode.runtime.process import forever, run_until_signal

class Part:
    def __init__(self, name, stubborn=False):
        self.name, self.stubborn = name, stubborn

    async def run(self):
        print("up", self.name, flush=True)
        try:
            await forever()
        except asyncio.CancelledError:
            print("down", self.name, flush=True)
            while self.stubborn:
                try:
                    await forever()
                except asyncio.CancelledError:
                    pass
            raise

parts = [Part("controller", STUBBORN)]
asyncio.run(run_until_signal(parts, ground=[Part("informer")], grace=GRACE))
print("clean", flush=True)
"""


def start(stubborn: bool, grace: float) -> "subprocess.Popen[str]":
    text = PROGRAM.replace("STUBBORN", str(stubborn)).replace("GRACE", str(grace))
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert {child.stdout.readline() for _ in range(2)} == {"up controller\n", "up informer\n"}
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_parts_before_the_ground_they_stand_on(number: signal.Signals) -> None:
    with start(stubborn=False, grace=5) as child:
        child.send_signal(number)
        out, _ = child.communicate(timeout=10)
        assert out == "down controller\ndown informer\nclean\n"
        assert child.returncode == 0


def test_a_part_that_does_not_end_is_left_behind_after_the_grace() -> None:
    with start(stubborn=True, grace=0.3) as child:
        began = time.monotonic()
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=10)
        assert time.monotonic() - began < 5
        assert child.returncode == 1


def test_a_second_signal_leaves_at_once() -> None:
    with start(stubborn=True, grace=60) as child:
        assert child.stdout is not None
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "down controller\n"
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=10)
        assert child.returncode == 130
