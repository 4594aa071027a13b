"""Formats of files in which single keys can be read and changed, each as text in and text out.

A file is read as nested mappings. A path is the sequence of keys from the outermost inwards. An
edit leaves every line alone that it need not touch. The caller checks that an edit did what was
meant.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from agent.components.files.formats.ini import Ini
from agent.components.files.formats.json import Json
from agent.components.files.formats.toml import Toml

Path = tuple[str, ...]


class Format(Protocol):
    def parse(self, text: str) -> dict[str, Any]:
        """Parse the text. Raises ValueError with what is wrong and where."""
        ...

    def set(self, text: str, path: Path, value: Any) -> str: ...

    def drop(self, text: str, path: Path) -> str: ...


BY_SUFFIX: Mapping[str, Format] = {
    ".json": Json(),
    ".toml": Toml(),
    ".ini": Ini(),
    ".conf": Ini(),
    ".cfg": Ini(),
}
