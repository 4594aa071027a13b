"""The probe `diagnostics`: a person requests a bundle now, whatever else runs on the node.

It changes nothing on the host except the folder of bundles, so that repeating it is harmless.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent.diagnostics.bundler import (
    BundleRequest,
    DiagnosticsCollector,
    parts_of,
    unknown_parts,
)
from agent.diagnostics.parts import PARTS
from agent.host import Host, HostError
from agent.probes import Answer, CannotAnswer

COLLECT_SECONDS = 60.0
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,100}")


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Answers the probe for one host."""

    collector: DiagnosticsCollector
    host: Host
    node: str
    agent: str

    async def answer(self, args: Mapping[str, str]) -> Answer:
        """Make a bundle. Raises CannotAnswer.

        args: `bundle` (parts, separated by commas; default: all), `name`, `by`
        """
        parts = parts_of(args.get("bundle", ""), list(PARTS))
        if why := unknown_parts(parts):
            raise CannotAnswer(why)
        name = args.get("name", "")
        if not _NAME.fullmatch(name):
            raise CannotAnswer(f"name {name!r}: small letters, digits, . and - only, at most 100")
        request = BundleRequest(
            name=name,
            parts=parts,
            by=args.get("by") or "a person",
            node=self.node,
            agent=self.agent,
            boot_id=self.host.boot_id(),
            limit=COLLECT_SECONDS,
        )
        try:
            made = await self.collector.collect(request)
        except HostError as error:
            raise CannotAnswer(str(error)) from error
        answer: dict[str, bool | int | float | str] = {"path": str(made.path)}
        answer |= {"place": made.place} if made.place else {"why": made.why}
        return answer | {f"{part}_characters": size for part, size in made.sizes.items()}
