"""Trees of files from tarballs and OCI artefacts: unpacked aside, then installed file by file.

The folder `staged/DIGEST` (with the allowances appended, if any) appears complete or not at all. A
record describes the content of a destination. Before a change it has no digest and lists all files
of the old and the new tree; after the change it lists the installed files. After a kill in between,
the tree therefore counts as not installed, and is installed again. A file of the host that is
replaced is backed up first, and restored when a removal puts the host back into its former state.
"""

import asyncio
import hashlib
import os
import shutil
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from agent.components.ports import Artefact, CommandRunner, TreeSnapshot
from agent.disk import RealDisk, replace
from agent.host import Contraindicated, HostError
from agent.host.real.components.archive import compression
from agent.host.real.components.backups import Replaced
from agent.host.real.components.downloads import Blob, Downloads
from agent.host.real.components.manifest import FileOf, Stamp, changed, manifest, stamp
from agent.host.real.components.paths import resolve_host_path
from agent.host.real.components.programs import checked
from agent.host.real.components.scripts import argv, grouped
from agent.host.real.components.unpacker import Unpacker, UnpackLimits

UNPACK_SECONDS = 900.0
EXPAND = {
    "xz": ("xz", "--decompress", "--stdout", "--memlimit-decompress=256MiB"),
    "zstd": ("zstd", "--decompress", "--stdout", "--quiet", "--memory=256MB"),
}
EXPAND_SCRIPT = 'ulimit -f "$1" && to=$2 && shift 2 && exec "$@" >"$to"'
ULIMIT_BYTES = 512
OUTPUT_CHARS = 800
PLACE_SECONDS = 900.0
REMOVE_SECONDS = 300.0
WAITING_SECONDS = 24 * 3600.0
"""Seconds for which a staged tree can wait for its permit before it may be removed and fetched
again.
"""
MOST_LISTED = 10
MOST_AT_ONCE = 200
"""Maximum paths in one argv."""


class PlacedTree(msgspec.Struct, frozen=True):
    """Record of the content of `dest`.

    digest: of the artefact; "" during a change
    previous: digest of the previous artefact, whose staged files stay for a rollback
    files: by path below `dest`, in their state right after the installation
    folders: paths below `dest` of folders that the agent created
    replaced: paths below `dest` of the host's files that are backed up
    """

    dest: str
    digest: str = ""
    previous: str = ""
    files: dict[str, Stamp] = {}
    folders: list[str] = []
    replaced: list[str] = []


class RealTrees:
    """Implements agent.components.ports.Trees.

    folder: the agent's; the host must see it at the same path
    root: where the host's files are mounted
    base: folder of the host that is trusted, with all folders above it; "" for none
    """

    def __init__(
        self, runner: CommandRunner, downloads: Downloads, folder: Path, root: Path, base: str = ""
    ) -> None:
        self._runner, self._downloads, self._root, self._base = runner, downloads, root, base
        self._staged, self._placed = folder / "staged", folder / "placed"
        self._replaced = Replaced(runner, folder / "replaced", root, base)
        self._disk = RealDisk()

    async def stage(self, artefact: Artefact) -> None:
        if (self._staged / _name(artefact)).is_dir():
            return
        try:
            self._disk.make_folder(self._staged)
            await asyncio.to_thread(self._drop_old)
            new = self._staged / f".{os.urandom(8).hex()}"
            (new / "tree").mkdir(parents=True)
            try:
                await self._stage_in(new, artefact)
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise
            os.replace(new, self._staged / _name(artefact))
        except OSError as error:
            raise HostError(f"{self._staged}: {error.strerror}") from error

    async def _stage_in(self, new: Path, artefact: Artefact) -> None:
        unpacker = Unpacker(new / "tree", allow=artefact.allow)
        for blob in await self._fetched(artefact, new):
            try:
                await self._unpacked(blob, unpacker)
            except Contraindicated as error:
                raise Contraindicated(f"source {artefact.source}: {error}") from error
        files = await asyncio.to_thread(manifest, new / "tree")
        (new / "files").write_bytes(msgspec.json.encode(files))

    async def read_tree(self, dest: str) -> TreeSnapshot:
        placed = await asyncio.to_thread(self._read, dest)
        differ = await asyncio.to_thread(changed, resolve_host_path(self._root, dest), placed.files)
        return TreeSnapshot(placed.digest, tuple(f"{dest}/{path}" for path in differ[:MOST_LISTED]))

    async def install(self, artefact: Artefact) -> None:
        staged = self._staged / _name(artefact)
        try:
            new = msgspec.json.decode((staged / "files").read_bytes(), type=list[FileOf])
        except (OSError, msgspec.DecodeError) as error:
            raise HostError(f"{artefact.source} is not staged: {error}") from error
        dest = artefact.dest
        before = await asyncio.to_thread(self._read, dest)
        known = {*before.files, *before.replaced}
        others = [entry.path for entry in new if not entry.folder and entry.path not in known]
        replaced = [*before.replaced, *await self._replaced.keep(dest, others)]
        planned = await asyncio.to_thread(self._planned, before, artefact, new, replaced)
        await asyncio.to_thread(self._write, planned)
        await self._place(dest, staged / "tree", f"place-{artefact.digest}")
        new_paths = {entry.path for entry in new}
        await self._take(dest, [path for path in before.files if path not in new_paths])
        folders = {entry.path for entry in new if entry.folder}
        gone = [path for path in planned.folders if path not in folders]
        await self._take_folders(dest, gone)
        at = resolve_host_path(self._root, dest)
        files = {
            entry.path: await asyncio.to_thread(stamp, at / entry.path, entry)
            for entry in new
            if not entry.folder
        }
        made = [path for path in planned.folders if path in folders]
        done = PlacedTree(dest, artefact.digest, planned.previous, files, made, replaced)
        await asyncio.to_thread(self._write, done)

    async def remove(self, dest: str, keep: Collection[str], *, back: bool) -> None:
        placed = await asyncio.to_thread(self._read, dest)
        if placed.files:
            retained = {path for path in placed.files if _under(f"{dest}/{path}", keep)}
            await asyncio.to_thread(self._write, msgspec.structs.replace(placed, digest=""))
            await self._take(dest, [path for path in placed.files if path not in retained])
            if back and placed.replaced:
                await self._put_back(placed, retained)
            await self._take_folders(dest, placed.folders)
            # From here on the tree owns nothing there: restored files are not removed again.
            await asyncio.to_thread(self._write, PlacedTree(dest))
        await asyncio.to_thread(self._replaced.drop, dest)
        try:
            self._disk.remove(self._record(dest))
        except OSError as error:
            raise HostError(f"{self._record(dest)}: {error.strerror}") from error

    async def _fetched(self, artefact: Artefact, folder: Path) -> list[Blob]:
        if artefact.oci:
            return await self._downloads.oci(artefact.source, folder)
        return await self._downloads.tarball(artefact.source, artefact.digest, folder)

    async def _unpacked(self, blob: Blob, unpacker: Unpacker) -> None:
        if blob.name:
            await asyncio.to_thread(unpacker.file, blob.path, blob.name)
            return
        await self._expand(blob.path)
        await asyncio.to_thread(unpacker.archive, blob.path)
        blob.path.unlink()

    async def _expand(self, path: Path) -> None:
        """Decompress a format that may need much memory, with the host's own program."""
        program = EXPAND.get(await asyncio.to_thread(compression, path))
        if program is None:
            return
        plain = path.with_name(f"{path.name}.plain")
        most = UnpackLimits().bytes
        arguments = [str(most // ULIMIT_BYTES), str(plain), *program, str(path)]
        expand = ["/bin/sh", "-c", EXPAND_SCRIPT, "expand-archive", *arguments]
        try:
            ran = await self._runner.run(expand, UNPACK_SECONDS)
        except TimeoutError as error:
            raise HostError(f"{program[0]}: no end in {UNPACK_SECONDS:g} s") from error
        if ran.code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ):
            raise Contraindicated(f"the archive unpacks to more than {most} bytes")
        if ran.code != 0:
            raise HostError(f"{program[0]} for components: {ran.output[-OUTPUT_CHARS:]}")
        plain.replace(path)

    async def _place(self, dest: str, tree: Path, name: str) -> None:
        program = argv("place-tree", self._base, str(tree), dest)
        await checked(self._runner, program, PLACE_SECONDS, name, f"source.dest {dest}")

    async def _put_back(self, placed: PlacedTree, retained: Collection[str]) -> None:
        tree = self._replaced.of(placed.dest)
        for path in retained:
            (tree / path).unlink(missing_ok=True)
        await self._place(placed.dest, tree, "")

    async def _take(self, dest: str, paths: Sequence[str]) -> None:
        await self._take_away("files", dest, grouped(paths))

    async def _take_folders(self, dest: str, paths: Sequence[str]) -> None:
        """Remove the folders that are empty, deepest first."""
        deep = sorted(paths, key=lambda path: path.count("/"), reverse=True)
        there = [path for path in deep if (resolve_host_path(self._root, dest) / path).is_dir()]
        await self._take_away("folders", dest, there)

    async def _take_away(self, kind: str, dest: str, paths: Sequence[str]) -> None:
        for at in range(0, len(paths), MOST_AT_ONCE):
            some = paths[at : at + MOST_AT_ONCE]
            program = argv("take-files", self._base, kind, dest, *some)
            await checked(self._runner, program, REMOVE_SECONDS, "", f"source.dest {dest}")

    def _planned(
        self, before: PlacedTree, artefact: Artefact, new: Sequence[FileOf], replaced: list[str]
    ) -> PlacedTree:
        """Return the record that is valid during the change."""
        at = resolve_host_path(self._root, artefact.dest)
        fresh = [entry.path for entry in new if entry.folder and not (at / entry.path).is_dir()]
        files = {entry.path: Stamp() for entry in new if not entry.folder}
        same = before.digest in ("", artefact.digest)
        return PlacedTree(
            artefact.dest,
            "",
            before.previous if same else before.digest,
            {**files, **before.files},
            sorted({*before.folders, *fresh}),
            replaced,
        )

    def _record(self, dest: str) -> Path:
        return self._placed / f"{hashlib.sha256(dest.encode()).hexdigest()[:24]}.json"

    def _read(self, dest: str) -> PlacedTree:
        try:
            return msgspec.json.decode(self._disk.read(self._record(dest)), type=PlacedTree)
        except FileNotFoundError:
            return PlacedTree(dest)
        except (OSError, msgspec.DecodeError) as error:
            raise HostError(f"{self._record(dest)} cannot be read: {error}") from error

    def _write(self, placed: PlacedTree) -> None:
        try:
            self._disk.make_folder(self._placed)
            replace(self._disk, self._record(placed.dest), msgspec.json.encode(placed))
        except OSError as error:
            raise HostError(f"{self._placed}: {error.strerror}") from error

    def _drop_old(self) -> None:
        """Remove unfinished staged trees, and those neither in use, nor previous, nor waiting
        for a permit.
        """
        retained: set[str] = set()
        for record in self._placed.glob("*.json") if self._placed.is_dir() else ():
            placed = msgspec.json.decode(record.read_bytes(), type=PlacedTree)
            retained |= {placed.digest, placed.previous}
        for folder in self._staged.iterdir():
            old = time.time() - folder.stat().st_mtime > WAITING_SECONDS
            if folder.name.startswith(".") or (
                old and folder.name.partition("-")[0] not in retained
            ):
                shutil.rmtree(folder, ignore_errors=True)


def _name(artefact: Artefact) -> str:
    """Return the folder's name. It includes the allowances, which differ between components."""
    return "-".join([artefact.digest, *sorted(artefact.allow)])


def _under(path: str, folders: Collection[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
