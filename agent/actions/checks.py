"""RunCheck: run a check that is installed on the host and say what it found.

Only checks that the agent's configuration lists can be asked for: by name, with their argv and the
digest of their file. Exit 0 is well and another status is not; a check that is missing, changed,
killed or too slow says nothing either way (failures.md F01).
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from agent.host import HostError
from agent.outcome import NO_ANSWER, TOO_LATE, Outcome, boot_cut, done, failed
from agent.programs import run
from agent.request import Request

if TYPE_CHECKING:
    from agent.actions import Bench

CANNOT_RUN = frozenset({126, 127})
"""What shells exit with when the command itself could not be run."""


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """argv    the program, by its full path, and its arguments
    sha256  of the program's file
    """

    argv: list[str]
    sha256: str


class RunCheck:
    announced = False

    def unfit(self, request: Request) -> str:
        check = request.step.check if request.step else None
        return "" if check else "RunCheck: no check is named"

    async def look(self, request: Request, bench: "Bench") -> Mapping[str, str]:
        assert request.step is not None
        return {"check": request.step.check or ""}

    async def act(
        self, request: Request, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> Outcome:
        name = before["check"]
        check = bench.checks.get(name)
        if check is None:
            known = ", ".join(sorted(bench.checks)) or "none"
            why = f"check {name} is not in the agent's configuration, which has {known}"
            return failed(why, NO_ANSWER)
        try:
            verify(check)
            code, said = await run(check.argv, limit)
        except HostError as error:
            return failed(f"check {name}: {error}", NO_ANSWER)
        except TimeoutError:
            return failed(f"check {name}: no result within {limit:g} s", TOO_LATE)
        if code == 0:
            return done(f"check {name}: {said}")
        if code < 0 or code in CANNOT_RUN:
            return failed(f"check {name}: {_how(code)}: {said}", NO_ANSWER)
        return failed(f"check {name}: {_how(code)}: {said}", code)

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> Outcome | None:
        return failed("the agent ended while the check ran", NO_ANSWER)

    def after_boot(self, boot_id: str) -> Outcome:
        return failed(boot_cut(boot_id), NO_ANSWER)


def verify(check: Check) -> None:
    """Raises HostError unless the program's file is the one that was listed."""
    path = check.argv[0]
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}") from error
    if found != check.sha256.lower():
        raise HostError(f"{path} has digest {found}, listed is {check.sha256}")


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"
