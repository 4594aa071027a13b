"""The sentence that a page begins with."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Summary:
    """calm: nothing on the page asks for anybody."""

    template: ClassVar[str] = "parts/title.html"
    sentence: str
    calm: bool
    key: str = "summary"
