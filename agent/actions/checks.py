"""RunCheck: runs a check that is installed on the host and reports its result.

Only checks in the agent's configuration can be requested: by name, with their argv and the digest
of their file. Exit status 0 means healthy, another one unhealthy. A check that is missing, changed,
killed or too slow has no result (failure mode F01).

The agent runs the bytes whose digest it compared, from a sealed copy in memory, so a file that is
replaced in between is never run. A script sees `/proc/self/fd/N` as its own path.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent.host import HostError
from agent.host.files import HostRoot
from agent.outcome import NO_ANSWER, TOO_LATE, StepOutcome, boot_cut, done, failed
from agent.programs import run
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench

CANNOT_RUN = frozenset({126, 127})
"""Exit statuses of shells if the command could not be run."""
MOST_BYTES = 32 * 1024 * 1024
"""Largest program of a check. Its copy counts as memory of the agent."""
PART_BYTES = 1024 * 1024
MFD_EXEC = 0x10
"""Source: include/uapi/linux/memfd.h; without it Linux 6.3 and later may refuse to run the copy."""
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class AllowedCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A check that RunCheck may run.

    argv: full path of the program, and its arguments
    sha256: of the program's file
    """

    argv: list[str]
    sha256: str


class RunCheck:
    announced = False

    def unfit(self, request: StepRequest) -> str:
        check = request.step.check if request.step else None
        return "" if check else "RunCheck: no check is named"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        assert request.step is not None
        return {"check": request.step.check or ""}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        name = before["check"]
        check = bench.checks.get(name)
        if check is None:
            known = ", ".join(sorted(bench.checks)) or "none"
            why = f"check {name} is not in the agent's configuration, which has {known}"
            return failed(why, NO_ANSWER)
        try:
            with opened(check, bench.files) as program:
                root = bench.files.root
                code, output = await run(check.argv, limit, program=program, root=root)
        except HostError as error:
            return failed(f"check {name}: {error}", NO_ANSWER)
        except TimeoutError:
            return failed(f"check {name}: no result within {limit:g} s", TOO_LATE)
        if code == 0:
            return done(f"check {name}: {output}")
        if code < 0 or code in CANNOT_RUN:
            return failed(f"check {name}: {_how(code)}: {output}", NO_ANSWER)
        return failed(f"check {name}: {_how(code)}: {output}", code)

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        return failed("the agent ended while the check ran", NO_ANSWER)

    def after_boot(self, boot_id: str) -> StepOutcome:
        return failed(boot_cut(boot_id), NO_ANSWER)


@contextmanager
def opened(check: AllowedCheck, files: HostRoot) -> Iterator[int]:
    """Open a sealed copy of the program in memory; yield its file descriptor.

    The copy cannot change. Raises HostError if its digest is not the listed one.
    """
    path = check.argv[0]
    program = -1
    try:
        program = _new_memory()
        digest = _copy(files.path(path), program)
        fcntl.fcntl(program, fcntl.F_ADD_SEALS, SEALS)
    except OSError as error:
        _close(program)
        raise HostError(f"{path}: {error.strerror}") from error
    except HostError:
        _close(program)
        raise
    try:
        if digest != check.sha256.lower():
            raise HostError(f"{path} has digest {digest}, listed is {check.sha256}")
        yield program
    finally:
        os.close(program)


def _new_memory() -> int:
    try:
        return os.memfd_create("check", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.memfd_create("check", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)  # before Linux 6.3


def _copy(path: Path, program: int) -> str:
    """Copy the file; return the digest of the copied bytes."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file, open(program, "wb", closefd=False) as copy:
        while part := file.read(PART_BYTES):
            size += len(part)
            if size > MOST_BYTES:
                raise HostError(f"{path} is larger than {MOST_BYTES} bytes")
            digest.update(part)
            copy.write(part)
    return digest.hexdigest()


def _close(program: int) -> None:
    if program >= 0:
        os.close(program)


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"
