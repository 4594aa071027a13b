"""Whoever runs the simulated machines, as the command `switch.py` of provider `local` asks them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kubenode.providers.errors import NoSuchMachine, ProviderError
from kubenode.providers.local.power import PREFIX
from kubenode.providers.port import ProviderMachine
from simulation.demo.power import SCHEME, Machines

DONE, NONE, REFUSED = 0, 68, 78
SWITCH = Path(__file__).with_name("switch.py")


def provider_id(zone: str, node: str) -> str:
    return f"{PREFIX}{zone}/{node}"


@asynccontextmanager
async def switchboard(machines: Machines, file: Path) -> AsyncIterator[None]:
    """While it is open, the providers file leads to these machines."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        verb, name, *request = (await reader.readline()).decode().split()
        node = name.rpartition("/")[2]
        code, said = await _do(
            machines, verb, ProviderMachine(f"{SCHEME}{node}", node), "".join(request)
        )
        writer.write(f"{code} {said}\n".encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    command = [sys.executable, "-I", "-S", str(SWITCH), str(port)]
    settings = json.dumps([{"type": "local", "command": command}])
    await asyncio.to_thread(file.write_text, settings)
    async with server:
        yield


async def _do(
    machines: Machines, verb: str, machine: ProviderMachine, request: str
) -> tuple[int, str]:
    try:
        match verb:
            case "state":
                return DONE, (await machines.power(machine)).state.lower()
            case "off":
                await machines.off(machine, request)
            case "on":
                await machines.on(machine, request)
            case "reset":
                await machines.reset(machine, request)
            case _:
                return REFUSED, f"{verb} is not known"
    except NoSuchMachine as error:
        return NONE, str(error)
    except ProviderError as error:
        return REFUSED, str(error)
    return DONE, ""
