"""What blows fall on: processes that are killed, frozen and started again."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from signal import SIGCONT, SIGSTOP
from time import monotonic

from chaos.blows import Blow, Sort
from support.daemons import Daemon

RESTART_SECONDS = 2.0
"""Until a process that ended by itself runs again, as under a kubelet."""


class Striking:
    """Carries blows out, in their time; `begin` is monotonic.

    struck  blows that fell
    ended   processes that ended by themselves, as one does that loses its Lease, and how often
    """

    def __init__(self, victims: Mapping[str, Daemon]) -> None:
        self.victims = victims
        self.struck: list[Blow] = []
        self.ended: Counter[str] = Counter()
        self._down: set[str] = set()

    async def run(self, plan: Iterable[Blow], begin: float) -> None:
        """Returns when every blow is over, and all processes run."""
        async with asyncio.TaskGroup() as tasks:
            for blow in plan:
                await asyncio.sleep(begin + blow.at - monotonic())
                tasks.create_task(self._strike(blow))

    async def keep(self) -> None:
        """Start again what ended by itself, for ever."""
        while True:
            await asyncio.sleep(RESTART_SECONDS)
            for name, victim in self.victims.items():
                process = victim.process
                if name not in self._down and process is not None and process.poll() is not None:
                    self.ended[name] += 1
                    victim.start()

    async def _strike(self, blow: Blow) -> None:
        aimed = list(self.victims) if blow.sort is Sort.CUT else [blow.victim]
        names = [name for name in aimed if name not in self._down]  # the one before may be late
        self._down.update(names)
        for name in names:
            if blow.sort is Sort.FREEZE:
                self.victims[name].send(SIGSTOP)
            else:
                self.victims[name].kill()
        await asyncio.sleep(blow.lasts)
        for name in names:
            if blow.sort is Sort.FREEZE:
                self.victims[name].send(SIGCONT)
            else:
                self.victims[name].start()
        self._down.difference_update(names)
        self.struck.append(blow)
