"""NVIDIA GPUs, through nvidia-smi."""

import csv
from collections.abc import Sequence

from agent.host import HostError
from agent.host.ports import Gpu
from agent.host.real.commands import Commands, HostCommand

SECONDS = 30.0
RESET_SECONDS = 100.0
_FORM = "--format=csv,noheader"


class NvidiaGpus:
    """Implements agent.host.ports.Gpus."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def gpus(self) -> list[Gpu]:
        known = await self._smi("--query-gpu=index,uuid,mig.mode.current,pstate", _FORM)
        users = await self._smi("--query-compute-apps=gpu_uuid,pid", _FORM)
        return gpus_of(known, users)

    async def reset(self, uuids: Sequence[str]) -> None:
        chosen = ",".join(uuids)
        await self._smi("--gpu-reset", f"--id={chosen}", limit=RESET_SECONDS, own=None)

    async def _smi(
        self, *arguments: str, limit: float = SECONDS, own: tuple[str, ...] | None = ()
    ) -> str:
        command = HostCommand(["nvidia-smi", *arguments], limit, own)
        try:
            ran = await self._commands.run(command)
        except TimeoutError as error:
            raise HostError(f"nvidia-smi: no answer within {limit:g} s") from error
        if ran.code == 127:
            raise HostError("nvidia-smi is not installed on this host, and this needs it")
        if ran.code != 0:
            raise HostError(f"nvidia-smi {arguments[0]}: exit status {ran.code}: {ran.output}")
        return ran.output


def gpus_of(known: str, users: str) -> list[Gpu]:
    """Parse two queries of nvidia-smi. A GPU that does not answer has error texts as values."""
    holders = [row[0].strip() for row in csv.reader(users.splitlines()) if len(row) >= 2]
    gpus = []
    for row in csv.reader(known.splitlines()):
        if len(row) < 4:
            raise HostError(f"nvidia-smi says what is not known: {','.join(row)[:200]!r}")
        index, uuid, mig, state = (field.strip() for field in row[:4])
        gpus.append(
            Gpu(
                uuid=uuid,
                index=int(index),
                users=holders.count(uuid),
                divided=mig == "Enabled",
                answers=state.startswith("P"),
            )
        )
    return gpus
