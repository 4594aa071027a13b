"""The agent, killed by SIGKILL at a chosen moment of its first act. Runs in a disposable host.

KILL_AT  before-act     the intent is on disk, systemd has not been asked
         after-act      systemd has done it, the outcome is not on disk
         before-answer  the outcome is on disk, the API server does not know
         after-answer   the API server knows, the agent does not know that it does

It happens once: a file in the agent's state folder tells the next process not to.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from agent.host.systemd import SystemdHost
from agent.kubejobs import KubeJobs
from agent.main import main

KILLED = Path("/var/lib/kubenode-agent/killed")
MOMENT = os.environ["KILL_AT"]


def _die(moment: str) -> None:
    if moment == MOMENT and not KILLED.exists():
        KILLED.write_text(moment)
        os.kill(os.getpid(), signal.SIGKILL)


class KilledHost(SystemdHost):
    async def unit_job(self, *args: Any) -> None:
        _die("before-act")
        await super().unit_job(*args)
        _die("after-act")


class KilledJobs(KubeJobs):
    async def answer(self, *args: Any) -> str:
        _die("before-answer")
        version = await super().answer(*args)
        _die("after-answer")
        return version


if __name__ == "__main__":
    import agent.agent
    import agent.main

    agent.main.SystemdHost = KilledHost  # type: ignore[attr-defined]
    agent.agent.KubeJobs = KilledJobs  # type: ignore[attr-defined]
    sys.exit(main())
