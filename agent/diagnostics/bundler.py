"""Makes a bundle of this host: collects, redacts, reports, saves and uploads.

A bundle is requested by a job's step before a repair, or by a person at any time. The procedure is
the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.diagnostics.bundles import Bundles
from agent.diagnostics.parts import PART_BYTES, PART_SECONDS, PARTS
from agent.diagnostics.redaction import redacted_beside
from agent.diagnostics.upload import BundleUploader
from agent.host import HostError
from agent.host.files import OWN_ROOT
from agent.patience import beside
from agent.programs import run
from agent.wire import format_time
from kubenode.runtime.clock import Clock

REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """Request for a bundle.

    name: of the bundle; replaces an earlier bundle of the same name
    by: requester, for the report
    limit: seconds for all parts together
    """

    name: str
    parts: Sequence[str]
    by: str
    node: str
    agent: str
    boot_id: str
    limit: float


@dataclass(frozen=True, slots=True)
class Bundle:
    """A saved bundle.

    place: where the operator keeps its copy; "" if it has none
    why: reason for no copy; "" if there is one
    sizes: characters of each part
    excerpt: the most notable findings, redacted and bounded
    """

    path: Path
    place: str
    why: str
    sizes: dict[str, int] = field(default_factory=dict)
    excerpt: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DiagnosticsCollector:
    """Collector of diagnostics.

    bundles: folder on this host
    store: receives a copy; None: no copy is made
    root: where the host's root is mounted
    """

    bundles: Bundles
    clock: Clock
    store: BundleUploader | None = None
    root: str = OWN_ROOT

    async def collect(self, request: BundleRequest) -> Bundle:
        """Collect and save a bundle. Raises HostError if nothing could be saved."""
        from agent.diagnostics.report import About, excerpt, page  # loads tables of HTML

        end = self.clock.monotonic() + request.limit
        texts = {
            part: await _part(part, end - self.clock.monotonic(), self.root)
            for part in request.parts
        }
        now = self.clock.now()
        about = About(request.node, request.agent, request.boot_id, format_time(now), request.by)
        files = {f"{part}.txt": text for part, text in texts.items()}
        files[REPORT] = await beside(lambda: page(about, texts), "report")
        path = await self.bundles.save(request.name, files, now.timestamp())
        place, why = await self._hand_on(path)
        sizes = {part: len(text) for part, text in texts.items()}
        return Bundle(path, place, why, sizes, await beside(lambda: excerpt(texts), "excerpt"))

    async def _hand_on(self, path: Path) -> tuple[str, str]:
        if self.store is None:
            return "", "no operator is set up to take a copy"
        try:
            return await self.store.put(path), ""
        except HostError as error:
            return "", str(error)


async def _part(part: str, remaining: float, root: str) -> str:
    """Collect a part. An error takes the place of its output, because the other parts are still
    useful.
    """
    sections = []
    for argv in PARTS[part]:
        seconds = max(min(remaining, PART_SECONDS), 0.1)
        try:
            _, text = await run(argv, seconds, PART_BYTES, root=root)
        except HostError as error:
            text = str(error)
        except TimeoutError:
            text = f"no end within {seconds:.0f} s"
        sections.append(await redacted_beside(f"$ {' '.join(argv)}\n{text}\n"))
    return "\n".join(sections)


def parts_of(text: str, otherwise: Sequence[str]) -> list[str]:
    """Split a list such as `dmesg,units`; "" gives `otherwise`."""
    return text.split(",") if text else list(otherwise)


def unknown_parts(parts: Sequence[str]) -> str:
    """Name the parts that do not exist; "" if all exist."""
    unknown = [part for part in parts if part not in PARTS]
    return f"bundle: {', '.join(unknown)}: one of {', '.join(PARTS)}" if unknown else ""
