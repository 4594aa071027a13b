"""A host whose agent joins with its Machine's token, and keeps its certificate itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from support.machine_world import MachineWorld, until

from agent.identity import pem
from agent.identity.issuance import works_as
from agent.identity.keeper import IdentityKeeper, IdentityTarget
from agent.identity.store import IdentityStore
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport


class Ahead(SystemClock):
    """The host's wall clock, which may be wrong."""

    def __init__(self) -> None:
        self.by = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.by


class Host:
    """An agent's identity and its client, as agent.main wires them."""

    def __init__(self, world: MachineWorld, name: str) -> None:
        self.name, self.clock = name, Ahead()
        self.ca_file = world.folder / f"{name}.ca"
        self.ca_file.write_bytes(world.cp.ca_file.read_bytes())
        self.folder = world.folder / name
        self.token_file = world.folder / f"{name}.token"
        self.store = IdentityStore(self.folder)
        current = str(self.store.current)
        files = (world.cp.server, str(self.ca_file), current, current)
        self.kube = Kube(PlainTransport(*files), clock=self.clock)
        self._wanted = IdentityTarget(
            name, world.cp.server, str(self.ca_file), str(self.token_file), 600
        )
        self.use(self.store)

    def use(self, store: IdentityStore) -> None:
        self.keeper = IdentityKeeper(self._wanted, store, self.kube, self.clock, spread=lambda: 0.0)

    @property
    def validity(self) -> pem.Validity:
        return pem.validity(self.store.read_current(), self.name)

    async def user(self) -> str:
        return await works_as(self.kube)


@asynccontextmanager
async def a_host(world: MachineWorld, name: str) -> AsyncIterator[Host]:
    host = Host(world, name)
    try:
        yield host
    finally:
        await host.kube.close()


async def joined(world: MachineWorld, host: Host) -> str:
    """The Machine is there and its agent has its first certificate; the ID of the token."""
    await world.make(host.name)
    token = await world.token(host.name)
    host.token_file.write_text(token.text + "\n")
    await host.keeper.renew_if_due()
    assert host.keeper.there.is_set()

    async def remembered() -> bool:
        bootstrap = (await world.machine(host.name)).status.bootstrap
        return bootstrap is not None and not bootstrap.request_id

    await until(remembered, "the operator has not seen the certificate")
    return token.token.id
