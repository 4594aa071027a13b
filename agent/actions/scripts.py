"""RunScript: runs a script that is installed on the host and listed with its digest.

The agent runs the bytes whose digest it compared, so a file that is replaced in between is never
run. It uses no shell. The arguments are the listed ones, and `--NAME=VALUE` for parameters of the
step with listed name and value.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.actions.allowlist import AllowedScript
from agent.actions.repair import STANDS, Repair, params_of, ports_of
from agent.host import Contraindicated, HostError
from agent.host.files import HostRoot
from agent.host.ports import CommandResult
from agent.outcome import TOO_LATE, StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench

MOST_BYTES = 4 * 1024 * 1024
POLL_SECONDS = 0.5


class RunScript(Repair):
    name = "RunScript"

    def unfit(self, request: StepRequest) -> str:
        return "" if request.step and request.step.script else "RunScript: no script is named"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        name = _named(request)
        script = bench.scripts.get(name)
        if script is None:
            known = ", ".join(sorted(bench.scripts)) or "none"
            raise Contraindicated(
                f"script {name} is not in the agent's configuration, which has {known}"
            )
        if why := misfit(script, params_of(request)):
            raise Contraindicated(f"script {name}: {why}")
        read(script, bench.files)
        return {"script": name, "name": str(request.key)}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        script = bench.scripts[before["script"]]
        args = [*script.args, *(f"--{n}={v}" for n, v in sorted(params_of(request).items()))]
        try:
            program = read(script, bench.files)
            ran = await ports_of(bench).scripts.begin(before["name"], program, args, limit)
        except TimeoutError:
            return failed(f"script {before['script']}: ended after {limit:.0f} s", TOO_LATE)
        return _outcome(before["script"], ran)

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        end = bench.clock.monotonic() + limit
        while (ran := await ports_of(bench).scripts.ended(before["name"])) is None:
            if bench.clock.monotonic() + POLL_SECONDS > end:
                return None
            await bench.clock.sleep(POLL_SECONDS)
        return _outcome(before["script"], ran, STANDS)


def misfit(script: AllowedScript, params: Mapping[str, str]) -> str:
    """Describe which parameter of the step is not listed; "" if all are."""
    for name, value in params.items():
        if name not in script.params:
            return f"params.{name} is not listed; it takes {', '.join(script.params) or 'none'}"
        if value not in script.params[name]:
            return f"params.{name} {value!r}: one of {', '.join(script.params[name]) or 'none'}"
    return ""


def read(script: AllowedScript, files: HostRoot) -> bytes:
    """Return the script's bytes. Raises HostError; Contraindicated if the digest is not as
    listed.
    """
    try:
        with open(files.path(script.path), "rb") as file:
            program = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise HostError(f"{script.path}: {error.strerror}") from error
    if len(program) > MOST_BYTES:
        raise HostError(f"{script.path} is larger than {MOST_BYTES} bytes")
    digest = hashlib.sha256(program).hexdigest()
    if digest != script.sha256.lower():
        raise Contraindicated(f"{script.path} has digest {digest}, listed is {script.sha256}")
    return program


def _named(request: StepRequest) -> str:
    assert request.step is not None and request.step.script
    return request.step.script


def _outcome(name: str, ran: CommandResult, note: str = "") -> StepOutcome:
    if ran.code == 0:
        return done(f"script {name}{note}: {ran.output}")
    how = f"killed by signal {-ran.code}" if ran.code < 0 else f"exit status {ran.code}"
    return failed(f"script {name}: {how}{note}: {ran.output}", ran.code)
