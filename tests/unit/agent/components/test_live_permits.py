"""The permit of a change is read from the API server right before each act."""

from datetime import timedelta
from typing import Any

import msgspec
from support.clock import FakeClock

from agent.agent import Worker
from agent.components.permits import LivePermits, MachineReader, PermitState
from agent.wire import Job, JobPermit, Metadata, Status
from kubenode.runtime.components.wire import ChangeClass, Machine, machine_of
from kubenode.runtime.kube.errors import Unreachable


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
    found = await LivePermits(read, lambda permit: "", clock).check("runc", ChangeClass.RESTART)
    assert found.state is PermitState.MISSING


async def test_a_new_process_does_nothing_while_the_permit_cannot_be_read() -> None:
    clock = FakeClock()
    permits = LivePermits(unreachable, lambda permit: "", clock)
    found = await permits.check("runc", ChangeClass.RESTART)
    assert found.state is PermitState.UNREADABLE and "away" in found.why


async def test_an_unreadable_permit_lasts_until_its_end_and_for_what_it_named() -> None:
    clock, away = FakeClock(), False
    machine = machine_of(a_machine(clock))

    async def read() -> Machine:
        if away:
            raise Unreachable("away")
        return machine

    permits = LivePermits(read, lambda permit: "", clock)
    assert (await permits.check("runc", ChangeClass.DRAIN)).state is PermitState.LIVE
    away = True
    assert (await permits.check("runc", ChangeClass.DRAIN)).state is PermitState.LIVE
    assert (await permits.check("runc", ChangeClass.REBOOT)).state is PermitState.UNREADABLE
    assert (await permits.check("cni", ChangeClass.DRAIN)).state is PermitState.UNREADABLE
    clock.step(timedelta(minutes=10))
    assert (await permits.check("runc", ChangeClass.DRAIN)).state is PermitState.UNREADABLE


async def test_a_job_that_holds_the_node_under_another_permit_is_in_the_way() -> None:
    clock = FakeClock()
    worker = Worker(None, clock)  # type: ignore[arg-type]
    machine = machine_of(a_machine(clock))

    async def read() -> Machine:
        return machine

    permits = LivePermits(read, worker.conflict, clock)
    for phase, held, state in (
        ("Running", "p-2", PermitState.BUSY),
        ("Running", "p-1", PermitState.LIVE),
        ("Pending", "", PermitState.LIVE),
        ("Succeeded", "p-2", PermitState.LIVE),
    ):
        permit = JobPermit(held) if held else None
        worker.observe_job("x", Job(Metadata("x"), status=Status(phase=phase, permit=permit)))
        assert (await permits.check("runc", ChangeClass.DRAIN)).state is state, (phase, held)


async def unreachable() -> Machine:
    raise Unreachable("away")
