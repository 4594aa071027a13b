"""Unpacks the members of archives, layer by layer, into a tree of the agent.

Every folder is entered by handle and never through a link, so nothing is created outside the tree,
whatever an earlier layer contains. Refused are: devices, pipes and sockets; links that lead out of
the tree, and set-user-ID and set-group-ID bits, unless the component permits them; archives beyond
the limits. Only root can write to the result.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.components.ports import LINKS_OUT, SET_USER_ID
from agent.host import Contraindicated
from agent.host.real.components.archive import Archive, ArchiveMember, MemberKind, opened

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """Limits for all layers of an artefact together.

    depth: of folders
    """

    bytes: int = 8 * 1024**3
    inodes: int = 50_000
    depth: int = 32


class Unpacker:
    """Unpacker of archives and files. Its methods raise Contraindicated, OSError.

    tree: an empty folder that only root can enter
    allow: LINKS_OUT and SET_USER_ID, as permitted
    """

    def __init__(
        self, tree: Path, bounds: UnpackLimits | None = None, allow: Collection[str] = ()
    ) -> None:
        self._tree, self._bounds, self._allow = tree, bounds or UnpackLimits(), allow
        self._bytes = self._inodes = 0

    def archive(self, path: Path) -> None:
        with opened(path) as file:
            archive = Archive(file, self._bounds.bytes, self._bytes)
            for member in archive:
                self._spend(member.size)
                self._put(member, archive)

    def file(self, path: Path, name: str) -> None:
        """Move a plain file into the tree."""
        self._count(name)
        with self._folder([], name) as folder:
            self._remove_existing(folder, name, name)
            os.chmod(path, 0o644)
            os.rename(path, name, dst_dir_fd=folder)

    def _put(self, member: ArchiveMember, archive: Archive) -> None:
        name = member.name[:_SHOWN].encode(errors="replace").decode()
        parts = self._parts(member.name, name)
        if member.kind is MemberKind.SPECIAL:
            raise Contraindicated(f"{name} is a device, pipe or socket, which no component brings")
        if member.kind is MemberKind.FOLDER:
            with self._folder(parts, name) as folder:
                os.fchmod(folder, member.mode & 0o755)
            return
        if not parts:
            raise Contraindicated(f"{name} is a {member.kind.value} where the tree is")
        self._count(name)
        with self._folder(parts[:-1], name) as folder:
            if member.kind is MemberKind.HARD_LINK:
                self._hard_link(member, folder, parts[-1], name)
                return
            self._remove_existing(folder, parts[-1], name)
            if member.kind is MemberKind.LINK:
                if LINKS_OUT not in self._allow:
                    _check_link(member.target, len(parts) - 1, name)
                os.symlink(member.target, parts[-1], dir_fd=folder)
                return
            if SET_USER_ID not in self._allow:
                _check_mode(member.mode, name)
            handle = os.open(parts[-1], _FILE, 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb") as file:
                for part in archive.content():
                    file.write(part)
                file.flush()
                os.fchmod(handle, member.mode & 0o6755)
                os.utime(handle, (member.mtime, member.mtime))

    def _parts(self, path: str, name: str) -> list[str]:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise Contraindicated(f"{name} leads out of the tree")
        if not _is_utf8(path):
            raise Contraindicated(f"{name} is no name in UTF-8")
        if len(parts) > self._bounds.depth or any(len(os.fsencode(piece)) > 255 for piece in parts):
            raise Contraindicated(f"{name}: more than {self._bounds.depth} folders, or a long name")
        return parts

    def _spend(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._bounds.bytes:
            raise Contraindicated(f"the archive unpacks to more than {self._bounds.bytes} bytes")

    def _count(self, name: str) -> None:
        self._inodes += 1
        if self._inodes > self._bounds.inodes:
            raise Contraindicated(f"{name}: more than {self._bounds.inodes} files and folders")

    @contextmanager
    def _folder(self, parts: Sequence[str], name: str) -> Iterator[int]:
        """Open the folder; missing folders are created."""
        handle = os.open(self._tree, _FOLDER)
        try:
            for part in parts:
                inner = self._enter(handle, part, name)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def _enter(self, handle: int, part: str, name: str) -> int:
        try:
            return os.open(part, _FOLDER, dir_fd=handle)
        except FileNotFoundError:
            self._count(name)
            os.mkdir(part, 0o755, dir_fd=handle)
            return os.open(part, _FOLDER, dir_fd=handle)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise Contraindicated(
                f"{name}: {part} on its way is a link or a file already, in this layer or an"
                " earlier one, and would lead out of the tree"
            ) from error

    def _remove_existing(self, folder: int, last: str, name: str) -> None:
        """Remove a file of that name from an earlier layer. Raises Contraindicated for a folder."""
        try:
            if stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                raise Contraindicated(
                    f"{name} is a folder already, in this layer or an earlier one"
                )
            os.unlink(last, dir_fd=folder)
        except FileNotFoundError:
            return

    def _hard_link(self, member: ArchiveMember, folder: int, last: str, name: str) -> None:
        source = self._parts(member.target, name)
        problem = f"{name} is a hard link to {member.target[:_SHOWN]!r}, no file of the tree so far"
        if not source:
            raise Contraindicated(problem)
        with self._folder(source[:-1], name) as there:
            try:
                known = os.stat(source[-1], dir_fd=there, follow_symlinks=False)
            except FileNotFoundError as error:
                raise Contraindicated(problem) from error
            if not stat.S_ISREG(known.st_mode):
                raise Contraindicated(problem)
            try:
                same = os.stat(last, dir_fd=folder, follow_symlinks=False).st_ino == known.st_ino
            except FileNotFoundError:
                same = False
            if same:
                return
            self._spend(known.st_size)  # both become separate files when the tree is installed
            self._remove_existing(folder, last, name)
            os.link(source[-1], last, src_dir_fd=there, dst_dir_fd=folder, follow_symlinks=False)


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_link(target: str, deep: int, name: str) -> None:
    """Raise Contraindicated for a link that leads out of the tree, directly or through another
    link.

    `..` is not permitted after a name, because its meaning depends on the target of that name.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if target.startswith("/") or up > deep or ".." in parts[up:] or not target:
        shown = target[:_SHOWN].encode(errors="replace").decode()
        raise Contraindicated(
            f"{name} is a link to {shown!r}, which leads out of the tree, or has .. behind a name;"
            f" write it as a relative path within the tree, or allow: [{LINKS_OUT}] at the source"
        )


def _check_mode(mode: int, name: str) -> None:
    if mode & (stat.S_ISUID | stat.S_ISGID):
        raise Contraindicated(
            f"{name} has the set-user-ID or set-group-ID bit (mode {mode:04o}): whoever runs it"
            f" gets its owner's rights; take the bit away, or allow: [{SET_USER_ID}] at the source"
        )
