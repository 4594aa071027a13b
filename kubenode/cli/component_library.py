"""Component library: `machine/library/NAME.yaml`, a MachineComponent and the set assigning it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import machine
from kubenode.api.v1alpha1 import MachineComponent, MachineComponentSet
from kubenode.cli.documents import files, read
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import explain_unknown

FOLDER = Path(machine.__file__).parent / "library"


@dataclass(frozen=True, slots=True)
class LibraryComponent:
    """An entry of the library, or an entry with the settings of a site.

    description: the comment at the top of its file, in one line.
    """

    name: str
    description: str
    component: MachineComponent
    component_set: MachineComponentSet


@cache
def component_library() -> dict[str, LibraryComponent]:
    """Return the entries by name, read once."""
    entries = map(_read_entry, files([FOLDER]))
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def find_entry(name: str) -> LibraryComponent:
    """Return an entry of the library. Raises Refusal for an unknown name."""
    library = component_library()
    if name not in library:
        raise Refusal(explain_unknown("component", name, library), Exit.USAGE)
    return library[name]


def _read_entry(path: Path) -> LibraryComponent:
    component, component_set = (document.data for document in read(path))
    return LibraryComponent(
        path.stem,
        " ".join(_comment(path.read_text(encoding="utf-8"))),
        MachineComponent.from_user(component),
        MachineComponentSet.from_user(component_set),
    )


def _comment(text: str) -> Iterator[str]:
    """Yield the lines of the comment at the top of a file."""
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        yield line.removeprefix("#").strip()
