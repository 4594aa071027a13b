"""Files of a component on the host: how they are, put in place, and taken away again."""

from collections.abc import Collection
from dataclasses import dataclass

from agent.components.files.keys import given_back, merged, without
from agent.components.ports import MOST_BYTES, FileFound, HostFiles
from agent.host import Contraindicated
from kubenode.runtime.components.render import RenderedFile
from kubenode.runtime.components.wire import Ownership


@dataclass(frozen=True, slots=True)
class FileState:
    """same   content (or our keys in it), mode and owner are as they shall be
    found  None: there is none
    """

    same: bool
    found: FileFound | None


async def look(
    files: HostFiles, wanted: RenderedFile, before: RenderedFile | None = None
) -> FileState:
    """before: as it was written last, whose keys are ours as well. Raises HostError."""
    found = await files.read(wanted.path)
    if found is None:
        return FileState(False, None)
    content = _content(wanted, found, before)
    return FileState(found == FileFound(content, wanted.mode, wanted.owner), found)


async def put(files: HostFiles, wanted: RenderedFile, before: RenderedFile | None = None) -> bool:
    """Whether it had to be written. Raises HostError; Contraindicated for keys that cannot be."""
    found = await files.read(wanted.path)
    content = _content(wanted, found, before)
    if found == FileFound(content, wanted.mode, wanted.owner):
        return False
    await files.write(wanted.path, content, wanted.mode, wanted.owner)
    return True


async def take_away(files: HostFiles, ours: RenderedFile, keep: Collection[str] = ()) -> None:
    """Of a file with foreign keys only ours go; nothing under the paths `keep` does."""
    if any(ours.path == path or ours.path.startswith(f"{path}/") for path in keep):
        return
    found = await files.read(ours.path)
    if found is None:
        return
    if ours.ownership is Ownership.KEYS:
        left = without(ours.path, _text(ours.path, found), ours.content)
        if left:
            if left.encode() != found.content:
                await files.write(ours.path, left.encode(), found.mode, found.owner)
            return
    await files.remove(ours.path)


async def put_back(
    files: HostFiles, ours: RenderedFile, before: FileFound | None, keep: Collection[str] = ()
) -> None:
    """As it was before us; None: there was none. Foreign keys and the paths `keep` stay."""
    if before is None:
        return await take_away(files, ours, keep)
    if any(ours.path == path or ours.path.startswith(f"{path}/") for path in keep):
        return
    found = await files.read(ours.path)
    content = before.content
    if found is not None and ours.ownership is Ownership.KEYS:
        now, then = _text(ours.path, found), _text(ours.path, before)
        content = given_back(ours.path, now, ours.content, then).encode()
    if found != FileFound(content, before.mode, before.owner):
        await files.write(ours.path, content, before.mode, before.owner)


def _content(wanted: RenderedFile, found: FileFound | None, before: RenderedFile | None) -> bytes:
    if wanted.ownership is not Ownership.KEYS:
        return wanted.content.encode()
    old = before.content if before is not None and before.ownership is Ownership.KEYS else ""
    current = _text(wanted.path, found) if found is not None else ""
    return merged(wanted.path, current, wanted.content, old).encode()


def _text(path: str, found: FileFound) -> str:
    if len(found.content) > MOST_BYTES:
        raise Contraindicated(f"{path} is larger than {MOST_BYTES} bytes: its keys cannot be owned")
    try:
        return found.content.decode()
    except UnicodeDecodeError as error:
        raise Contraindicated(f"{path} is no UTF-8 text; use ownership Whole") from error
