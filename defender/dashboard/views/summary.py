"""The first sentence of a page."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Summary:
    """The sentence. calm: nothing on the page needs a person."""

    template: ClassVar[str] = "parts/title.html"
    sentence: str
    calm: bool
    key: str = "summary"
