"""A simulated host holds to what real ones hold to (tests/e2e/test_agent_repairs.py)."""

from hosts.port_contract import contract

from simulation.hosts.host import SimulatedHost


async def test_a_simulated_host_holds_to_the_contract_of_ports() -> None:
    host = SimulatedHost()
    host.scripts.code = 3
    assert await contract(host.ports(), "contract-1") == []
