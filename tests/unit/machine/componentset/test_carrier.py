"""The carrier keeps the permit of a machine alive while its agent is at work."""

from collections.abc import Mapping
from datetime import timedelta

from support.clock import FakeClock

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinework import MachinePermit
from kubenode.api.v1alpha1.permit import Holder
from machine.componentset.board import Assignments, SetIntent
from machine.componentset.carrier import Carrier
from machine.disruption.port import DisruptionRequest as Disruption
from machine.disruption.port import DisruptionState, Prepared

R = "1-90d2c7e1fa"


class Machines:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def get(self, name: str) -> Machine:
        return self.machine

    async def wait_for(self, name: str, version: str) -> None:
        return None


class Access:
    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.writes: list[MachinePermit | None] = []

    async def permit(self, machine: Machine, permit: MachinePermit | None) -> Machine:
        self.writes.append(permit)
        spec = machine.spec.model_copy(update={"permit": permit})
        self.machines.machine = machine.model_copy(update={"spec": spec})
        return self.machines.machine


class Disruptions:
    def __init__(self) -> None:
        self.state = DisruptionState.READY

    async def prepare(self, wish: Disruption) -> Prepared:
        return Prepared(self.state, permit="p-1")

    async def end(self, node: str | None, holder: Holder) -> bool:
        return True


class Held:
    def sets(self, node: str) -> list[Holder]:
        return [Holder(kind="MachineComponentSet", name="a", uid="u")]


def a_machine(clock: FakeClock, state: str) -> Machine:
    named = {"name": "a", "component": "a-1", "revision": R, "configHash": R, "set": "a"}
    end = clock.now() + timedelta(minutes=10)
    permit = {
        "name": "p-1",
        "components": ["a"],
        "maxDisruption": "Reboot",
        "startBefore": end.isoformat(),
    }
    told = {"name": "a", "revision": R, "attempt": 1, "configHash": R, "state": state}
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m1"},
            "spec": {"addresses": ["10.0.0.1"], "components": [named], "permit": permit},
            "status": {"components": [told], "nodeRef": {"name": "m1"}},
        }
    )


class World:
    def __init__(self, state: str = "Applying") -> None:
        self.clock = FakeClock()
        self.machines = Machines(a_machine(self.clock, state))
        self.access, self.disruptions, self.board = (
            Access(self.machines),
            Disruptions(),
            Assignments(),
        )
        wishes: Mapping[str, SetIntent] = {"m1": SetIntent(leave=True)}
        self.board.put("a", wishes)
        self.carrier = Carrier(
            self.machines,  # type: ignore[arg-type]
            Sets(),  # type: ignore[arg-type]
            self.access,  # type: ignore[arg-type]
            self.disruptions,
            Held(),
            self.board,
            self.clock,
            lambda node: "",
            lambda machine: timedelta(minutes=30),
        )

    async def after(self, minutes: float) -> list[MachinePermit | None]:
        """What is written of the permit by a look every half minute, and is not written again."""
        self.access.writes.clear()
        for _ in range(int(minutes * 2)):
            self.clock.step(timedelta(seconds=30))
            await self.carrier.reconcile("m1")
        return self.access.writes


class Sets:
    def get(self, name: str) -> None:
        return None


async def test_a_permit_is_renewed_while_its_agent_works_and_cleared_in_the_end() -> None:
    world = World()
    end = world.clock.now() + timedelta(minutes=40)
    writes = await world.after(45)
    renewals = [permit for permit in writes if permit is not None]
    assert 3 <= len(renewals) <= 8 and None in writes
    until = [permit.renewed_until for permit in renewals]
    assert all(one is not None and one <= end for one in until)


async def test_a_permit_is_not_renewed_when_the_node_is_not_ready_for_it() -> None:
    world = World()
    world.disruptions.state = DisruptionState.WAITING
    writes = await world.after(30)
    assert writes == []
