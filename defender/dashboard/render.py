"""Render view models as HTML.

Templates escape every value and mark none as safe, and the Content-Security-Policy blocks what
might pass. A model names its own template.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from defender.dashboard.node_state import OF_LETTER, NodeDisplayState
from defender.decision.pauses import describe_scope


class PagePart(Protocol):
    """One part of a page. A part with the same `key` replaces it in place."""

    template: ClassVar[str]

    @property
    def key(self) -> str: ...


View = Mapping[str, Sequence[PagePart]]
"""The live parts of a page by the name of their slot, in order."""


class Renderer:
    def __init__(self) -> None:
        self._env = Environment(
            loader=PackageLoader("defender.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._env.filters |= {
            "instant": instant,
            "iso": iso,
            "seconds": seconds,
            "scope": describe_scope,
        }
        self._env.globals |= {
            "letter_of": letter_of,
            "states": list(NodeDisplayState),
            "kind_of": OF_LETTER,
            "plot_keys": PLOT_KEYS,
        }

    def part(self, model: PagePart, root: str) -> str:
        """Render one part. `root` is where the dashboard is mounted, for links."""
        return self._env.get_template(model.template).render(it=model, root=root).strip()

    def page(self, template: str, **given: Any) -> str:
        return self._env.get_template(template).render(**given)


PLOT_KEYS = {
    "solid": "M1 0H11V10H1z",
    "outline": "M1.7 .7H10.3V9.3H1.7z",
    "half": "M1 5H11V10H1z",
    "closed": "M1 8.6H11V10H1z",
    "unknown": "M1.7 .7H10.3V9.3H1.7z",
    "typical": "M6 1l4 4-4 4-4-4z",
    "whisker": "M6 10V1M2 1h8",
}
"""Shapes of the legend of plots by their class."""


def safe(html: str) -> Markup:
    """Mark the output of `part` as safe, for the page that contains it."""
    return Markup(html)


def letter_of(state: str) -> str:
    return NodeDisplayState(state).letter


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def instant(at: datetime) -> str:
    """Format a time for people. Scripts show how long ago it is."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def seconds(count: float) -> str:
    """Format a duration for people: `4.2 s`, `3 min`, `2 h 5 min`."""
    if count < 10:
        return f"{count:.1f} s"
    if count < 90:
        return f"{count:.0f} s"
    minutes = round(count / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
