"""The permit of a change is read from the API server right before each act."""

from datetime import timedelta
from typing import Any

import msgspec
from support.clock import FakeClock

from agent.agent import Worker
from agent.components.permits import LivePermits, MachineReader, PermitReadiness
from agent.wire import JobPermit, WireJob, WireJobStatus, WireRemedyMetadata
from kubenode.runtime.components.wire import WireChangeClass, WireMachine, machine_of
from kubenode.runtime.kube.errors import ServerUnreachable


class Server:
    def __init__(self, items: list[dict[str, Any]]) -> None:
        self.items = items
        self.query: object = None

    async def get(self, path: str, decode: Any, query: object = None) -> Any:
        assert path.endswith("/machines")
        self.query = query
        return decode(msgspec.json.encode({"items": self.items}))


def a_machine(clock: FakeClock, minutes: float = 10) -> dict[str, Any]:
    end = clock.now() + timedelta(minutes=minutes)
    permit = {"name": "p-1", "components": ["runc"], "maxDisruption": "Drain"}
    return {
        "metadata": {"name": "m1"},
        "spec": {"permit": {**permit, "startBefore": end.isoformat()}},
    }


async def test_the_own_machine_is_read_by_its_name() -> None:
    clock = FakeClock()
    server = Server([a_machine(clock)])
    machine = await MachineReader(server, "m1")()  # type: ignore[arg-type]
    assert machine is not None and machine.metadata.name == "m1"
    assert machine.spec.permit is not None and machine.spec.permit.name == "p-1"
    assert server.query == {"fieldSelector": "metadata.name=m1"}


async def test_a_machine_that_is_gone_gives_no_leave() -> None:
    clock = FakeClock()
    read = MachineReader(Server([]), "m1")  # type: ignore[arg-type]
    found = await LivePermits(read, lambda permit: "", clock).check("runc", WireChangeClass.RESTART)
    assert found.state is PermitReadiness.MISSING


async def test_a_new_process_does_nothing_while_the_permit_cannot_be_read() -> None:
    clock = FakeClock()
    permits = LivePermits(unreachable, lambda permit: "", clock)
    found = await permits.check("runc", WireChangeClass.RESTART)
    assert found.state is PermitReadiness.UNREADABLE and "away" in found.why


async def test_an_unreadable_permit_lasts_until_its_end_and_for_what_it_named() -> None:
    clock, away = FakeClock(), False
    machine = machine_of(a_machine(clock))

    async def read() -> WireMachine:
        if away:
            raise ServerUnreachable("away")
        return machine

    permits = LivePermits(read, lambda permit: "", clock)
    assert (await permits.check("runc", WireChangeClass.DRAIN)).state is PermitReadiness.LIVE
    away = True
    assert (await permits.check("runc", WireChangeClass.DRAIN)).state is PermitReadiness.LIVE
    assert (await permits.check("runc", WireChangeClass.REBOOT)).state is PermitReadiness.UNREADABLE
    assert (await permits.check("cni", WireChangeClass.DRAIN)).state is PermitReadiness.UNREADABLE
    clock.step(timedelta(minutes=10))
    assert (await permits.check("runc", WireChangeClass.DRAIN)).state is PermitReadiness.UNREADABLE


async def test_a_job_that_holds_the_node_under_another_permit_is_in_the_way() -> None:
    clock = FakeClock()
    worker = Worker(None, clock)  # type: ignore[arg-type]
    machine = machine_of(a_machine(clock))

    async def read() -> WireMachine:
        return machine

    permits = LivePermits(read, worker.conflict, clock)
    for phase, held, state in (
        ("Running", "p-2", PermitReadiness.BUSY),
        ("Running", "p-1", PermitReadiness.LIVE),
        ("Pending", "", PermitReadiness.LIVE),
        ("Succeeded", "p-2", PermitReadiness.LIVE),
    ):
        permit = JobPermit(held) if held else None
        worker.observe_job(
            "x", WireJob(WireRemedyMetadata("x"), status=WireJobStatus(phase=phase, permit=permit))
        )
        assert (await permits.check("runc", WireChangeClass.DRAIN)).state is state, (phase, held)


async def unreachable() -> WireMachine:
    raise ServerUnreachable("away")
