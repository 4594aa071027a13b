"""`kubenode run all`: the operators share one process, and one page of metrics."""

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from support.clock import FakeClock
from support.remedy_engine import a_diagnoser

from defender.service import Defender
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informers import Informers
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.telemetry.metrics import RuntimeMetrics
from machine.operator import MachineOperator
from remedy.operator import RemedyOperator


def test_no_two_parts_of_the_operators_have_one_name() -> None:
    clock, fence, registry = FakeClock(), AlwaysLeader(), CollectorRegistry()
    kube = Kube(PlainTransport("http://127.0.0.1:1"), clock=clock)
    metrics, shared = RuntimeMetrics(registry), Informers()
    given: dict[str, Any] = {"runtime": metrics, "informer": shared}
    defender = Defender(kube, fence, clock, registry, **given)
    MachineOperator(kube, fence, clock, registry, permits=defender, **given)
    RemedyOperator(kube, defender, a_diagnoser(), fence, clock, registry, **given)
    assert b"kubenode_" in generate_latest(registry)
