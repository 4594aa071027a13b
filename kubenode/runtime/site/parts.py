"""Parts of a page that are rendered by themselves, and replaced as they change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from markupsafe import Markup


class PagePart(Protocol):
    """One part of a page. A part with the same `key` replaces it in place."""

    template: ClassVar[str]

    @property
    def key(self) -> str: ...


View = Mapping[str, Sequence[PagePart]]
"""The live parts of a page by the name of their slot, in order."""


class PartRenderer(Protocol):
    """Renders view models as HTML. A model names its own template."""

    def part(self, model: PagePart, root: str) -> str:
        """Render one part. root: where the site is mounted, for links."""
        ...

    def page(self, template: str, **given: object) -> str: ...


@dataclass(frozen=True, slots=True)
class Summary:
    """The first sentence of a page. calm: nothing on the page needs a person."""

    template: ClassVar[str] = "parts/title.html"
    sentence: str
    calm: bool
    key: str = "summary"


@dataclass(frozen=True, slots=True)
class Warn:
    """A doubt about the data of a page. then: what follows from it."""

    template: ClassVar[str] = "parts/warn.html"
    key: str
    text: str
    then: str


def safe(html: str) -> Markup:
    """Mark the output of `PartRenderer.part` as safe, for the page that contains it."""
    return Markup(html)
