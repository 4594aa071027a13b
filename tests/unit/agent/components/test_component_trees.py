"""Tarballs put in place file by file, paths of the host, and files that are watched."""

import asyncio
import dataclasses
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from agent.components.ports import SET_USER_ID, Artefact
from agent.host import Contraindicated, HostError
from agent.host.ports import CommandResult
from agent.host.real.components.downloads import Blob, Downloads
from agent.host.real.components.paths import resolve_host_path
from agent.host.real.components.trees import RealTrees
from agent.host.real.components.unpacker import UnpackLimits
from agent.host.real.components.watch import InotifyWatch

ONE = {"bin/shop": "one", "lib/old/gone": "one", "lib/both": "both"}
TWO = {"bin/shop": "two", "lib/both": "both", "lib/new": "two"}


class Here:
    """Runs programs on this machine. dies: before the first program with this word in its argv."""

    def __init__(self, dies: str = "") -> None:
        self.dies = dies

    async def run(self, argv: Sequence[str], limit: float, name: str = "") -> CommandResult:
        if self.dies and self.dies in argv:
            raise HostError("killed")
        done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True)
        return CommandResult(done.returncode, done.stdout + done.stderr)


class World:
    """Trees whose root is a folder; paths of artefacts are within it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.dest = folder, folder / "opt"
        self.runner = Here()

    def trees(self, downloads: Downloads | None = None) -> RealTrees:
        """As after a start of the agent."""
        downloads = downloads or Downloads("amd64", Path("/"))
        folder, base = self.folder / "state", str(self.folder)
        return RealTrees(self.runner, downloads, folder, Path("/"), base)

    def artefact(
        self, files: dict[str, str], change: Callable[[Path], None] = lambda _: None
    ) -> Artefact:
        tree = self.folder / hashlib.sha256(repr(files).encode()).hexdigest()[:8]
        for path, text in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
            (tree / path).chmod(0o755)
        change(tree)
        made = tree.with_suffix(".tar")
        subprocess.run(["tar", "-C", tree, "--mtime=@0", "-cf", made, "."], check=True)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        return Artefact(f"file://{made}", digest, str(self.dest))

    def there(self) -> dict[str, str]:
        files = (path for path in self.dest.rglob("*") if path.is_file())
        return {str(path.relative_to(self.dest)): path.read_text() for path in files}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("agent.host.real.components.paths.INVISIBLE_FOLDERS", ())
    return World(tmp_path)


async def test_a_tree_replaces_another_and_leaves_what_is_not_its_own(world: World) -> None:
    (world.dest / "bin").mkdir(parents=True)
    (world.dest / "bin/theirs").write_text("theirs")
    for files in (ONE, TWO, ONE):
        artefact = world.artefact(files)
        await world.trees().stage(artefact)
        await world.trees().install(artefact)
        assert world.there() == {**files, "bin/theirs": "theirs"}
        assert await world.trees().read_tree(str(world.dest)) is not None
    assert os.access(world.dest / "bin/shop", os.X_OK)
    await world.trees().remove(str(world.dest), [f"{world.dest}/lib/both"], back=True)
    assert world.there() == {"bin/theirs": "theirs", "lib/both": "both"}


def lies_there_before(world: World) -> None:
    for path, text in {"bin/shop": "theirs", "lib/new": "theirs too"}.items():
        (world.dest / path).parent.mkdir(parents=True)
        (world.dest / path).write_text(text)
    (world.dest / "bin/shop").chmod(0o741)
    os.symlink("shop", world.dest / "bin/link")


@pytest.mark.parametrize("back", [True, False])
async def test_files_that_it_took_the_place_of_come_back_where_the_host_is_let_go(
    world: World, back: bool
) -> None:
    lies_there_before(world)
    for files in (ONE, TWO, {**ONE, "bin/link": "no link"}):
        artefact = world.artefact(files)
        await world.trees().stage(artefact)
        await world.trees().install(artefact)
        assert files.items() <= world.there().items()
    await world.trees().remove(str(world.dest), (), back=back)
    if not back:
        assert world.there() == {}
    else:
        told = {"bin/shop": "theirs", "lib/new": "theirs too", "bin/link": "theirs"}
        assert world.there() == told
        assert (world.dest / "bin/shop").stat().st_mode & 0o777 == 0o741
        assert os.readlink(world.dest / "bin/link") == "shop"
    assert not list((world.folder / "state/replaced").iterdir()), "nothing is kept any more"
    await world.trees().remove(str(world.dest), (), back=back)
    assert len(world.there()) == 3 * back, "again is harmless"


@pytest.mark.parametrize("moment", ["keep-replaced", "place-tree", "files", "folders"])
async def test_killed_while_it_replaces_or_gives_back_nothing_of_others_is_lost(
    world: World, moment: str
) -> None:
    lies_there_before(world)
    artefact = world.artefact(ONE)
    await world.trees().stage(artefact)
    for act in (
        partial(world.trees().install, artefact),
        partial(world.trees().remove, str(world.dest), (), back=True),
    ):
        world.runner.dies = moment
        with suppress(HostError):
            await act()
        world.runner.dies = ""
        await act()
    theirs = {"bin/shop": "theirs", "lib/new": "theirs too", "bin/link": "theirs"}
    assert world.there() == theirs


async def test_more_than_can_be_kept_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.host.real.components.backups.MOST_BYTES", 5)
    lies_there_before(world)
    artefact = world.artefact(ONE)
    await world.trees().stage(artefact)
    with pytest.raises(Contraindicated, match="1 files that are there would be replaced, 6 bytes"):
        await world.trees().install(artefact)
    assert world.there()["bin/shop"] == "theirs"


async def test_a_file_that_somebody_changed_is_named(world: World) -> None:
    artefact = world.artefact(ONE)
    await world.trees().stage(artefact)
    await world.trees().install(artefact)
    (world.dest / "bin/shop").write_text("edited")
    (world.dest / "lib/both").unlink()
    os.utime(world.dest / "lib/old/gone")
    found = await world.trees().read_tree(str(world.dest))
    assert sorted(found.changed) == [f"{world.dest}/bin/shop", f"{world.dest}/lib/both"]
    await world.trees().install(artefact)
    assert (await world.trees().read_tree(str(world.dest))).changed == ()


@pytest.mark.parametrize("moment", ["place-tree", "files", "folders"])
async def test_killed_in_the_middle_it_is_neither_and_the_next_run_ends_it(
    world: World, moment: str
) -> None:
    old, new = world.artefact(ONE), world.artefact(TWO)
    for artefact in (old, new):
        await world.trees().stage(artefact)
    await world.trees().install(old)
    world.runner.dies = moment
    with pytest.raises(HostError, match="killed"):
        await world.trees().install(new)
    assert (await world.trees().read_tree(str(world.dest))).digest == ""
    world.runner.dies = ""
    await world.trees().install(new)
    assert world.there() == TWO and not (world.dest / "lib/old").exists()
    await world.trees().install(old)
    assert world.there() == ONE


async def test_another_digest_and_what_is_not_staged_are_refused(world: World) -> None:
    artefact = world.artefact(ONE)
    other = Artefact(artefact.source, "0" * 64, artefact.dest)
    with pytest.raises(Contraindicated, match=f"sha256:{artefact.digest} instead of sha256:000"):
        await world.trees().stage(other)
    with pytest.raises(HostError, match="is not staged"):
        await world.trees().install(other)
    assert world.there() == {}


async def test_a_tree_with_a_pipe_or_a_whiteout_is_refused(world: World) -> None:
    pipe = world.artefact({"a": "1"}, lambda tree: os.mkfifo(tree / "pipe"))
    with pytest.raises(Contraindicated, match="pipe is a device, pipe or socket"):
        await world.trees().stage(pipe)
    with pytest.raises(Contraindicated, match="container image"):
        await world.trees().stage(world.artefact({"etc/.wh.passwd": ""}))


def tarred(tree: Path) -> Path:
    made = tree.with_suffix(".tar")
    subprocess.run(["tar", "-C", tree, "-cf", made, "."], check=True)
    return made


def compressed(program: str, path: Path) -> Path:
    made = path.with_suffix(".packed")
    with made.open("wb") as file:
        subprocess.run([program, "--stdout", path], stdout=file, check=True)
    return made


class Layers(Downloads):
    """Artefacts of these files, as a registry has their layers."""

    def __init__(self, *layers: Path) -> None:
        super().__init__("amd64", Path("/"))
        self._layers = layers

    async def oci(self, ref: str, folder: Path) -> list[Blob]:
        return [Blob(Path(shutil.copy(path, folder / path.name))) for path in self._layers]


async def test_layers_that_lead_out_of_the_tree_are_refused_at_staging(world: World) -> None:
    """A link in the first layer, files behind it in the second: each is harmless by itself."""
    outside = world.folder / "outside"
    outside.mkdir()
    layers = []
    for number, target in enumerate((outside, None)):
        tree = world.folder / f"layer-{number}"
        (tree / "x").mkdir(parents=True)
        if target is None:
            (tree / "x/pwned.service").write_text("")
            (tree / "x/suid").write_text("")
            (tree / "x/suid").chmod(0o4755)
        else:
            (tree / "x").rmdir()
            (tree / "x").symlink_to(target)
        layers.append(tarred(tree))
    artefact = Artefact(f"registry.example/shop@sha256:{'0' * 64}", "0" * 64, str(world.dest))
    trees = world.trees(Layers(*layers))
    with pytest.raises(
        Contraindicated, match=r"shop@sha256:0+: \./x is a link to .*out of the tree"
    ):
        await trees.stage(artefact)
    with pytest.raises(Contraindicated, match="x/suid has the set-user-ID"):
        await world.trees(Layers(layers[1])).stage(artefact)
    assert list(outside.iterdir()) == []
    assert list((world.folder / "state/staged").iterdir()) == [], "nothing half unpacked stays"


async def test_what_one_component_declares_is_refused_to_another_of_the_same_digest(
    world: World,
) -> None:
    plain = world.artefact(ONE, lambda tree: (tree / "lib/both").chmod(0o4755))
    allowed = dataclasses.replace(plain, allow=frozenset({SET_USER_ID}))
    await world.trees().stage(allowed)
    with pytest.raises(Contraindicated, match="set-user-ID"):
        await world.trees().stage(plain)
    await world.trees().install(allowed)
    assert (world.dest / "lib/both").stat().st_mode & 0o7777 == 0o4755
    assert (await world.trees().read_tree(str(world.dest))).changed == ()


@pytest.mark.parametrize("program", ["gzip", "bzip2", "xz", "zstd"])
async def test_each_compression_is_taken_off(world: World, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    plain = world.artefact(ONE)
    made = Path(plain.source.removeprefix("file://"))
    packed = compressed(program, made)
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    artefact = Artefact(f"file://{packed}", digest, str(world.dest))
    await world.trees().stage(artefact)
    await world.trees().install(artefact)
    assert world.there() == ONE


async def test_what_a_program_unpacks_is_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "agent.host.real.components.trees.UnpackLimits", lambda: UnpackLimits(bytes=4096)
    )
    (zeros := world.folder / "zeros").write_bytes(bytes(1 << 20))
    made = compressed("xz", zeros)
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    with pytest.raises(Contraindicated, match="unpacks to more than 4096 bytes"):
        await world.trees().stage(Artefact(f"file://{made}", digest, str(world.dest)))


async def test_a_tree_in_a_folder_that_others_may_write_is_refused(world: World) -> None:
    (world.dest / "lib").mkdir(parents=True)
    (world.dest / "lib").chmod(0o775)
    artefact = world.artefact(ONE)
    await world.trees().stage(artefact)
    with pytest.raises(Contraindicated, match=r"source.dest /.*lib may be written .*chmod go-w"):
        await world.trees().install(artefact)
    (world.dest / "lib").chmod(0o755)
    await world.trees().install(artefact)
    assert world.there() == ONE


def test_links_on_the_way_mean_the_hosts_root_and_the_last_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "lib/link").symlink_to("/etc/shadow")
    assert resolve_host_path(tmp_path, "/var/run/a") == tmp_path / "run/a"
    assert resolve_host_path(tmp_path, "/lib/a") == tmp_path / "usr/lib/a"
    assert resolve_host_path(tmp_path, "/lib/../../../etc/a") == tmp_path / "etc/a"
    with pytest.raises(Contraindicated, match="is a link to /etc/shadow"):
        resolve_host_path(tmp_path, "/lib/link")
    for path in ("/root/a", "/tmp/../home/x", "/proc/1"):
        with pytest.raises(Contraindicated, match="no component can own"):
            resolve_host_path(tmp_path, path)


async def test_a_file_that_is_written_replaced_or_taken_away_is_told(tmp_path: Path) -> None:
    watch = InotifyWatch(tmp_path)
    watch.follow(["/etc/a", "/etc/deep/b"])
    (tmp_path / "etc").mkdir()
    acts: list[tuple[Callable[[], object], str]] = [
        (lambda: (tmp_path / "etc/a").write_text("1"), "/etc/a"),
        (lambda: (tmp_path / "etc/.a").write_text("2"), ""),
        (lambda: (tmp_path / "etc/.a").replace(tmp_path / "etc/a"), "/etc/a"),
        (lambda: (tmp_path / "etc/a").unlink(), "/etc/a"),
        (lambda: (tmp_path / "etc/deep").mkdir(), "/etc/deep/b"),
        (lambda: (tmp_path / "etc/deep/b").write_text("3"), "/etc/deep/b"),
    ]
    told: set[str] = set()
    for act, path in acts:
        waiting = asyncio.ensure_future(watch.changed())
        await asyncio.sleep(0)
        act()
        if path:
            async with asyncio.timeout(30):
                while path not in told:
                    told |= await waiting
                    waiting = asyncio.ensure_future(watch.changed())
        told = set()
        waiting.cancel()
    watch.close()
