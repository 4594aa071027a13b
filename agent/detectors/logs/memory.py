"""Stored state of the log detector: open faults, and the read position of each log.

It is one small file that is replaced atomically. Without it, logs are read from their lookback, and
conditions follow from the logs.
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
    """Stored state.

    boot_id: boot in which it was written
    positions: source name to its position
    faults: condition type to open faults; the last one determines reason and message
    healthy: conditions that were False
    """

    boot_id: str = ""
    positions: dict[str, str] = {}
    faults: dict[str, list[StoredFault]] = {}
    healthy: list[str] = []

    def restore_conditions(self) -> dict[str, ConditionState]:
        """Return the faulty conditions. Their checks are due after their interval from the
        fault.
        """
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
    """Read the state; return it and what is wrong with the file ("" if nothing is)."""
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
    """Write the state. Raises OSError. Not flushed: after a crash of the host the boot is new
    anyway.
    """
    folder.mkdir(parents=True, exist_ok=True)
    replace(RealDisk(), folder / NAME, msgspec.json.encode(memory), flushed=False)
