"""Reads, writes and removes a component's files on the host."""

from collections.abc import Collection
from dataclasses import dataclass

from agent.components.files.keys import given_back, merged, without
from agent.components.ports import MOST_BYTES, FileSnapshot, HostFiles
from agent.host import Contraindicated
from kubenode.runtime.components.render import RenderedFile
from kubenode.runtime.components.wire import Ownership


@dataclass(frozen=True, slots=True)
class FileState:
    """State of a file.

    same: whether content (or the component's keys in it), mode and owner are as wanted
    existing: the file on the host; None: it does not exist
    """

    same: bool
    existing: FileSnapshot | None


async def read_file_state(
    files: HostFiles, wanted: RenderedFile, before: RenderedFile | None = None
) -> FileState:
    """Return the state of a file. Raises HostError.

    before: the file as written last, whose keys belong to the component too
    """
    existing = await files.read(wanted.path)
    if existing is None:
        return FileState(False, None)
    content = _content(wanted, existing, before)
    return FileState(existing == FileSnapshot(content, wanted.mode, wanted.owner), existing)


async def put(files: HostFiles, wanted: RenderedFile, before: RenderedFile | None = None) -> bool:
    """Write the file if it differs; return whether it was written.

    Raises HostError; Contraindicated if keys cannot be written.
    """
    existing = await files.read(wanted.path)
    content = _content(wanted, existing, before)
    if existing == FileSnapshot(content, wanted.mode, wanted.owner):
        return False
    await files.write(wanted.path, content, wanted.mode, wanted.owner)
    return True


async def take_away(files: HostFiles, ours: RenderedFile, keep: Collection[str] = ()) -> None:
    """Remove the file; of one with foreign keys only the component's keys. Paths under `keep`
    stay.
    """
    if any(ours.path == path or ours.path.startswith(f"{path}/") for path in keep):
        return
    existing = await files.read(ours.path)
    if existing is None:
        return
    if ours.ownership is Ownership.KEYS:
        remaining = without(ours.path, _text(ours.path, existing), ours.content)
        if remaining:
            if remaining.encode() != existing.content:
                await files.write(ours.path, remaining.encode(), existing.mode, existing.owner)
            return
    await files.remove(ours.path)


async def put_back(
    files: HostFiles, ours: RenderedFile, before: FileSnapshot | None, keep: Collection[str] = ()
) -> None:
    """Restore the file as it was before the component; None: it did not exist.

    Foreign keys and paths under `keep` stay.
    """
    if before is None:
        return await take_away(files, ours, keep)
    if any(ours.path == path or ours.path.startswith(f"{path}/") for path in keep):
        return
    existing = await files.read(ours.path)
    content = before.content
    if existing is not None and ours.ownership is Ownership.KEYS:
        now, then = _text(ours.path, existing), _text(ours.path, before)
        content = given_back(ours.path, now, ours.content, then).encode()
    if existing != FileSnapshot(content, before.mode, before.owner):
        await files.write(ours.path, content, before.mode, before.owner)


def _content(
    wanted: RenderedFile, existing: FileSnapshot | None, before: RenderedFile | None
) -> bytes:
    if wanted.ownership is not Ownership.KEYS:
        return wanted.content.encode()
    old = before.content if before is not None and before.ownership is Ownership.KEYS else ""
    current = _text(wanted.path, existing) if existing is not None else ""
    return merged(wanted.path, current, wanted.content, old).encode()


def _text(path: str, existing: FileSnapshot) -> str:
    if len(existing.content) > MOST_BYTES:
        raise Contraindicated(f"{path} is larger than {MOST_BYTES} bytes: its keys cannot be owned")
    try:
        return existing.content.decode()
    except UnicodeDecodeError as error:
        raise Contraindicated(f"{path} is no UTF-8 text; use ownership Whole") from error
