"""CollectDiagnostics: saves a bundle on this host, and hands it to the operator where one takes it.

The bundle on the host is the act; an operator that takes none is told of in the answer.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.actions.checks import run
from agent.diagnostics.parts import PART_BYTES, PART_SECONDS, PARTS
from agent.diagnostics.redaction import redacted
from agent.diagnostics.report import About, page
from agent.host import HostError
from agent.outcome import Outcome, boot_cut, done, failed
from agent.request import Request
from agent.wire import format_time

if TYPE_CHECKING:
    from agent.actions import Bench

BY_DEFAULT = ("dmesg", "journal", "runtime")
REPORT = "report.html"


class CollectDiagnostics:
    announced = False

    def unfit(self, request: Request) -> str:
        unknown = [part for part in _parts(request) if part not in PARTS]
        return f"bundle: {', '.join(unknown)}: one of {', '.join(PARTS)}" if unknown else ""

    async def look(self, request: Request, bench: "Bench") -> Mapping[str, str]:
        return {"bundle": ",".join(_parts(request)), "name": str(request.key)}

    async def act(
        self, request: Request, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> Outcome:
        if bench.bundles is None:
            return failed("this agent has no folder for diagnostics")
        end = bench.clock.monotonic() + limit
        texts = {
            part: await _part(part, end - bench.clock.monotonic())
            for part in before["bundle"].split(",")
        }
        now = bench.clock.now()
        about = About(
            node=request.node,
            agent=request.agent,
            boot_id=bench.host.boot_id(),
            at=format_time(now),
            asked_by=f"RemedyOperationJob {request.job}",
        )
        files = {f"{part}.txt": text for part, text in texts.items()}
        files[REPORT] = page(about, texts)
        path = await bench.bundles.save(before["name"], files, now.timestamp())
        kept = f"{path} on this host"
        if bench.store is not None:
            try:
                kept = f"{await bench.store.put(path)}; {kept}"
            except HostError as error:
                kept = f"{kept} only: {error}"
        sizes = ", ".join(f"{part} {len(text)}" for part, text in texts.items())
        return done(f"{kept}; characters: {sizes}")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> Outcome | None:
        return None

    def after_boot(self, boot_id: str) -> Outcome:
        return failed(boot_cut(boot_id))


async def _part(part: str, left: float) -> str:
    """What cannot be collected is said in its place: the other parts are worth having."""
    said = []
    for argv in PARTS[part]:
        seconds = max(min(left, PART_SECONDS), 0.1)
        try:
            _, text = await run(list(argv), seconds, PART_BYTES)
        except HostError as error:
            text = str(error)
        except TimeoutError:
            text = f"no end within {seconds:.0f} s"
        said.append(redacted(f"$ {' '.join(argv)}\n{text}\n"))
    return "\n".join(said)


def _parts(request: Request) -> list[str]:
    bundle = (request.step.params or {}).get("bundle", "") if request.step else ""
    return bundle.split(",") if bundle else list(BY_DEFAULT)
