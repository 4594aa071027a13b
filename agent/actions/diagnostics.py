"""CollectDiagnostics: saves a bundle on this host and uploads it to the operator if it accepts it.

The bundle on the host is the act. The outcome says if the upload failed. Its first line names the
location; the lines after it are an excerpt for the pages of the job's node.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.diagnostics.bundler import BundleRequest, parts_of, unknown_parts
from agent.outcome import StepOutcome, boot_cut, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench

BY_DEFAULT = ("dmesg", "journal", "runtime")


class CollectDiagnostics:
    announced = False

    def unfit(self, request: StepRequest) -> str:
        return unknown_parts(_parts(request))

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        return {"bundle": ",".join(_parts(request)), "name": str(request.key)}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        if bench.collector is None:
            return failed("this agent has no folder for diagnostics")
        made = await bench.collector.collect(
            BundleRequest(
                name=before["name"],
                parts=before["bundle"].split(","),
                by=f"RemedyOperationJob {request.job}",
                node=request.node,
                agent=request.agent,
                boot_id=bench.host.boot_id(),
                limit=limit,
            )
        )
        location = f"{made.path} on this host"
        location = f"{made.place}; {location}" if made.place else f"{location} only: {made.why}"
        sizes = ", ".join(f"{part} {size}" for part, size in made.sizes.items())
        return done("\n".join((f"{location}; characters: {sizes}", *made.excerpt)))

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        return None

    def after_boot(self, boot_id: str) -> StepOutcome:
        return failed(boot_cut(boot_id))


def _parts(request: StepRequest) -> list[str]:
    bundle = (request.step.params or {}).get("bundle", "") if request.step else ""
    return parts_of(bundle, BY_DEFAULT)
