"""The pages: what each is called, which parts of it are live, and what of its address it reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from defender.dashboard.views.attention import attention, headline
from defender.dashboard.fleet import zones
from defender.dashboard.render import Shown, View
from defender.dashboard.scene import Scene

Params = Mapping[str, str]
LONGEST_PARAM = 317


@dataclass(frozen=True, slots=True)
class Page:
    """path    as a route; its parameters and those of `asks` are what `build` is given
    place   which entry of the menu it belongs to
    build   the live parts; None for a page that is not there
    """

    name: str
    title: str
    path: str
    build: Callable[[Scene, Params], View | None]
    asks: tuple[str, ...] = ()
    place: str = ""

    @property
    def template(self) -> str:
        return f"{self.name}.html"

    def read(self, query: Mapping[str, str], path: Mapping[str, str]) -> dict[str, str]:
        """What `build` reads, cut to what can be meant."""
        found = {name: query[name] for name in self.asks if query.get(name)}
        return {k: v[:LONGEST_PARAM] for k, v in (found | dict(path)).items()}


def _fleet(scene: Scene, params: Params) -> View:
    found = zones(scene.fleet)
    view: dict[str, Sequence[Shown]] = {
        "headline": [headline(scene)],
        "attention": attention(scene),
    }
    for zone in found:
        view[f"head {zone.name}"] = [zone.head]
        view[f"zone {zone.name}"] = zone.tiles
    return view


PAGES = (Page("fleet", "Fleet", "/", _fleet, place="fleet"),)
MENU = (("fleet", "Fleet", "/"),)
