"""What outlives the agent's process: open faults, and how far each log was read.

One small file, written anew and moved into place. Without it, or when it cannot be read, logs are
read from their lookback on and conditions are as the logs say.
"""

from datetime import datetime
from pathlib import Path

import msgspec

from agent.detectors import ReportedStatus
from agent.detectors.logs.state import ConditionState, Fault
from agent.disk import RealDisk, replace

NAME = "logs.json"


class StoredFault(msgspec.Struct, frozen=True):
    key: str
    reason: str
    message: str
    since: datetime
    last: datetime


class Memory(msgspec.Struct, frozen=True):
    """boot_id    of the boot that it was written in
    positions  source name -> where to go on
    faults     condition type -> open faults, the one that speaks last
    healthy    conditions that were False
    """

    boot_id: str = ""
    positions: dict[str, str] = {}
    faults: dict[str, list[StoredFault]] = {}
    healthy: list[str] = []

    def restore_conditions(self) -> dict[str, ConditionState]:
        """The conditions as they were. Each check is asked at once."""
        return {
            name: ConditionState(
                ReportedStatus.TRUE,
                tuple(Fault(f.key, f.reason, f.message, f.since, f.last, f.since) for f in faults),
            )
            for name, faults in self.faults.items()
            if faults
        }


def keep(boot_id: str, positions: dict[str, str], conditions: dict[str, ConditionState]) -> Memory:
    return Memory(
        boot_id,
        positions,
        {
            name: [StoredFault(f.key, f.reason, f.message, f.since, f.last) for f in state.faults]
            for name, state in conditions.items()
            if state.faults
        },
        [name for name, state in conditions.items() if state.status is ReportedStatus.FALSE],
    )


def read(folder: Path) -> tuple[Memory, str]:
    """What was kept, and what is wrong with it ("" for nothing)."""
    path = folder / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Memory), ""
    except FileNotFoundError:
        return Memory(), ""
    except OSError as error:
        return Memory(), f"{path}: {error.strerror}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Memory(), f"{path}: {error}"


def write(folder: Path, memory: Memory) -> None:
    """Raises OSError. Not synchronised: after a crash of the host the boot is another one."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(RealDisk(), folder / NAME, msgspec.json.encode(memory), flushed=False)
