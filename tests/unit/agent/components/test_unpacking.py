"""Archives of components: what is unpacked stays in its tree, within bounds, and is harmless."""

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.components.ports import LINKS_OUT, SET_USER_ID
from agent.host import Contraindicated
from agent.host.real.components.archive import Archive, MemberKind
from agent.host.real.components.unpacker import Unpacker, UnpackLimits

Entry = tuple[str, bytes, str, int]
"""Name, type, content or target, mode."""


def tar(*entries: Entry, form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for name, kind, text, mode in entries:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.mtime = kind, mode, 1_000
            if kind == tarfile.REGTYPE:
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
            else:
                member.linkname = text
                archive.addfile(member)
    return made.getvalue()


def a_file(name: str, text: str = "x", mode: int = 0o644) -> Entry:
    return name, tarfile.REGTYPE, text, mode


def a_link(name: str, target: str) -> Entry:
    return name, tarfile.SYMTYPE, target, 0o777


def a_hard_link(name: str, target: str) -> Entry:
    return name, tarfile.LNKTYPE, target, 0o644


class World:
    def __init__(self, folder: Path) -> None:
        self.folder, self.tree, self.outside = folder, folder / "tree", folder / "outside"
        self.tree.mkdir()
        self.outside.mkdir()
        (self.outside / "theirs").write_text("theirs")

    def unpack(
        self, *layers: bytes, bounds: UnpackLimits | None = None, allow: Collection[str] = ()
    ) -> None:
        unpacker = Unpacker(self.tree, bounds, allow)
        for number, layer in enumerate(layers):
            path = self.folder / f"layer-{number}"
            path.write_bytes(layer)
            unpacker.archive(path)

    def harmed(self) -> bool:
        texts = {path.name: path.read_text() for path in self.outside.iterdir()}
        beside = {path.name for path in self.folder.iterdir() if not path.name.startswith("layer")}
        return texts != {"theirs": "theirs"} or beside != {"tree", "outside"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_files_folders_and_links_are_unpacked_in_each_format(world: World, form: int) -> None:
    long = f"{'d' * 90}/{'e' * 90}"
    entries = [
        ("./", tarfile.DIRTYPE, "", 0o777),
        a_file("./bin/shop", "program", 0o775),
        ("lib/", tarfile.DIRTYPE, "", 0o777),
        a_file(long, "long"),
        a_link("lib/link", "../bin/shop"),
        a_link("lib/dangling", "later"),
        a_hard_link("bin/again", "./bin/shop"),
        a_file("empty", ""),
    ]
    world.unpack(tar(*entries, form=form))
    tree = world.tree
    assert (tree / "bin/shop").read_text() == "program"
    assert (tree / "bin/shop").stat().st_mode & 0o7777 == 0o755, "others than root write nothing"
    assert (tree / "bin/shop").stat().st_mtime == 1_000
    assert (tree / "lib").stat().st_mode & 0o7777 == 0o755
    assert (tree / long).read_text() == "long" and (tree / "empty").read_text() == ""
    assert os.readlink(tree / "lib/link") == "../bin/shop"
    assert (tree / "bin/again").samefile(tree / "bin/shop")


def test_a_later_layer_replaces_files_of_an_earlier_one(world: World) -> None:
    one = tar(a_file("a", "one"), a_link("b", "a"), a_file("c", "one"))
    world.unpack(one, tar(a_file("a", "two"), a_file("b", "two"), a_link("c", "a")))
    assert (world.tree / "a").read_text() == (world.tree / "b").read_text() == "two"
    assert os.readlink(world.tree / "c") == "a"


@pytest.mark.parametrize("up", ["../outside", "/tmp", "../../../../tmp", "a/../../outside"])
def test_a_link_that_leads_out_of_the_tree_is_refused(world: World, up: str) -> None:
    with pytest.raises(Contraindicated, match="which leads out of the tree"):
        world.unpack(tar(a_link("x", up)))
    deep = up if up.startswith("/") else f"../{up}"
    with pytest.raises(Contraindicated, match="leads out of the tree"):
        world.unpack(tar(a_file("deep/a"), a_link("deep/x", deep)))


def test_a_second_layer_writes_nothing_through_a_link_of_the_first(world: World) -> None:
    """Also a link that stays in the tree is not followed on the way to another file."""
    (world.tree / "x").symlink_to(world.outside)
    for layer in (
        tar(a_file("x/pwned.service")),
        tar(a_file("x/suid", mode=0o4755)),
        tar(("x/folder", tarfile.DIRTYPE, "", 0o755)),
        tar(a_hard_link("x/hard", "x/theirs")),
        tar(a_hard_link("hard", "x/theirs")),
    ):
        with pytest.raises(Contraindicated, match="x on its way is a link or a file already"):
            world.unpack(layer)
    world.unpack(tar(a_file("x", "ours")))
    assert (world.tree / "x").read_text() == "ours", "a link itself is replaced"
    assert not world.harmed()


def test_a_plain_file_of_a_layer_replaces_a_link_and_does_not_follow_it(world: World) -> None:
    (world.tree / "shop").symlink_to(world.outside)
    (world.folder / "layer-1").write_text("program")
    Unpacker(world.tree).file(world.folder / "layer-1", "shop")
    assert (world.tree / "shop").read_text() == "program"
    assert not world.harmed()


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755])
def test_set_user_id_bits_are_refused(world: World, mode: int) -> None:
    with pytest.raises(Contraindicated, match=r"bin/su has the set-user-ID or set-group-ID bit"):
        world.unpack(tar(a_file("bin/su", mode=mode)))
    assert not (world.tree / "bin/su").exists()


def test_what_the_component_declares_is_unpacked_and_still_not_followed(world: World) -> None:
    out = str(world.outside)
    entries = tar(a_file("bin/su", mode=0o4777), a_link("x", out))
    world.unpack(entries, allow=[LINKS_OUT, SET_USER_ID])
    assert (world.tree / "bin/su").stat().st_mode & 0o7777 == 0o4755
    assert os.readlink(world.tree / "x") == out
    with pytest.raises(Contraindicated, match="x on its way is a link"):
        world.unpack(tar(a_file("x/a")), allow=[LINKS_OUT, SET_USER_ID])
    with pytest.raises(Contraindicated, match=r"allow: \[SetUserID\] at the source"):
        world.unpack(entries, allow=[LINKS_OUT])
    assert not world.harmed()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (a_file("../outside/theirs"), "leads out of the tree"),
        (a_file("a/../../outside/theirs"), "leads out of the tree"),
        (a_hard_link("a", "../outside/theirs"), "leads out of the tree"),
        (a_hard_link("a", "/etc/passwd"), "no file of the tree so far"),
        (("a", tarfile.CHRTYPE, "", 0o644), "device, pipe or socket"),
        (("a", tarfile.FIFOTYPE, "", 0o644), "device, pipe or socket"),
        (a_file("a/" * 40 + "a"), "more than 32 folders"),
        (a_file("a\udcff"), "no name in UTF-8"),
        (a_link(".", "a"), "where the tree is"),
    ],
)
def test_what_no_component_brings_is_refused(world: World, entry: Entry, why: str) -> None:
    with pytest.raises(Contraindicated, match=why):
        world.unpack(tar(entry))
    assert not world.harmed()


def test_an_absolute_name_means_the_tree(world: World) -> None:
    world.unpack(tar(a_file("/etc/shop.conf")))
    assert (world.tree / "etc/shop.conf").read_text() == "x"


@pytest.mark.parametrize(
    ("bounds", "layer", "why"),
    [
        (
            UnpackLimits(bytes=100_000),
            gzip.compress(tar(a_file("zeros", "0" * 200_000))),
            "100000 bytes",
        ),
        (UnpackLimits(bytes=100_000), tar(a_file("a", "0" * 50_000)), "100000 bytes"),
        (
            UnpackLimits(bytes=100_000),
            tar(a_file("a", "0" * 40_000), a_hard_link("b", "a"), a_hard_link("c", "a")),
            "100000 bytes",
        ),
        (UnpackLimits(inodes=5), tar(*(a_file(f"f{n}") for n in range(4))), "more than 5 files"),
        (UnpackLimits(inodes=5), tar(a_file("a/b/c/d/e/f")), "more than 5 files"),
    ],
)
def test_bounds_hold_over_all_layers(
    world: World, bounds: UnpackLimits, layer: bytes, why: str
) -> None:
    with pytest.raises(Contraindicated, match=why):
        world.unpack(layer, layer, layer, bounds=bounds)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:700],
    "no tar": lambda _: b"<html>" * 200,
    "empty": lambda _: b"",
    "wrong sum": lambda data: data[:10] + b"Z" + data[11:],
    "cut gzip": lambda data: gzip.compress(data)[:-20],
    "garbled gzip": lambda data: gzip.compress(data)[:20] + b"\xff" * 50,
    "bzip2 that is none": lambda _: b"BZh9" + b"x" * 100,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_refused_with_a_reason(world: World, damage: str) -> None:
    with pytest.raises(Contraindicated, match="the archive"):
        world.unpack(DAMAGES[damage](tar(a_file("a", "x" * 5000))))


def test_a_header_of_any_size_takes_no_memory(world: World) -> None:
    header = bytearray(tar(a_file("a"), form=tarfile.USTAR_FORMAT)[:512])
    header[156:157] = b"x"
    header[124:136] = b"77777777777\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(Contraindicated, match="a header that is too large"):
        world.unpack(bytes(header))


SEED = tar(a_file("a/b", "x" * 600), a_link("a/c", "b"), a_hard_link("d", "a/b"), a_file("e" * 150))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), max_size=8))
@pytest.mark.exhaustive
def test_any_bytes_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SEED)
    for at, byte in changes:
        data[at] = byte
        block = at - at % 512
        data[block + 148 : block + 156] = b" " * 8
        data[block + 148 : block + 156] = b"%06o\0 " % sum(data[block : block + 512])
    try:
        for member in Archive(io.BytesIO(bytes(data)), 1 << 20):
            assert isinstance(member.kind, MemberKind)
    except Contraindicated:
        return
