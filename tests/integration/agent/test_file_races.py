"""A service's user races with root, who writes and removes a component's files in its folder.

KUBENODE_RACES: how often each race is run.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.host.real.components.scripts import argv

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it runs programs of two users"),
    pytest.mark.timeout(3600),
]
RACES = int(os.environ.get("KUBENODE_RACES", "60"))
NOBODY = 65534
REFUSED = 77
ATTACK = """
import os, sys
folder, victim, user = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.setgroups([])
os.setgid(user)
os.setuid(user)
def attempt(act, *args):
    try:
        act(*args)
    except OSError:
        pass
def link(target, name):
    attempt(os.symlink, target, ".link")
    attempt(os.rename, ".link", name)
print("ready", flush=True)
while True:
    link(victim, ".a.conf.kubenode-new")
    link(victim, "a.conf")
    attempt(os.mkdir, "inner")
    attempt(lambda: open("inner/a.conf", "x").close())
    attempt(os.rename, "inner", "aside")
    attempt(os.symlink, folder, "inner")
    attempt(os.unlink, "inner")
    attempt(os.rename, "aside", "inner")
"""


class Site:
    """base/root  root's folder with a file of root's; base/service  the user's folder"""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root, self.service, self.source = base / "root", base / "service", base / "source"
        self.victim = self.root / "a.conf"
        self.root.mkdir()
        self.victim.write_text("root's")
        self.victim.chmod(0o600)
        self.service.mkdir()
        os.chown(self.service, NOBODY, NOBODY)
        self.tree = base / "tree"
        (self.tree / "inner").mkdir(parents=True)
        (self.tree / "inner/a.conf").write_text("component's")

    @contextmanager
    def attacked(self) -> Iterator[None]:
        program = [sys.executable, "-c", ATTACK, str(self.root), str(self.victim), str(NOBODY)]
        with subprocess.Popen(program, cwd=self.service, stdout=subprocess.PIPE) as attacker:
            assert attacker.stdout is not None and attacker.stdout.readline()
            try:
                yield
                assert attacker.poll() is None, "the attacker raced to the end"
            finally:
                attacker.kill()

    def run(self, name: str, *args: str) -> int:
        program = argv(name, str(self.base), *args)
        return subprocess.run(program, capture_output=True, check=False).returncode

    def unharmed(self) -> bool:
        known = self.victim.stat()
        about = (known.st_uid, known.st_gid, known.st_mode & 0o7777)
        inside = sorted(path.name for path in self.root.iterdir())
        return (
            about == (0, 0, 0o600) and self.victim.read_text() == "root's" and inside == ["a.conf"]
        )

    def write(self, path: Path) -> int:
        self.source.write_text("component's")
        return self.run("write-file", str(self.source), str(path), "0644", "nobody:nogroup")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_file_in_a_folder_of_a_services_user_is_refused_whatever_the_user_swaps(
    site: Site,
) -> None:
    with site.attacked():
        for _ in range(RACES):
            assert site.write(site.service / "a.conf") == REFUSED
            assert site.write(site.service / "inner/a.conf") == REFUSED
            assert site.unharmed()


def test_a_tree_in_a_folder_of_a_services_user_is_refused_whatever_the_user_swaps(
    site: Site,
) -> None:
    with site.attacked():
        for _ in range(RACES):
            assert site.run("place-tree", str(site.tree), str(site.service)) == REFUSED
            assert site.run("keep-replaced", str(site.service), str(site.tree), "./inner/a.conf")
            assert site.unharmed()


def test_a_file_is_taken_away_through_no_link_that_the_user_swaps_in(site: Site) -> None:
    with site.attacked():
        for _ in range(RACES):
            site.run("take-files", "files", str(site.service), "inner/a.conf", "a.conf")
            site.run("take-files", "folders", str(site.service), "inner")
            assert site.unharmed()


def test_a_link_of_roots_into_a_folder_of_others_is_refused(site: Site) -> None:
    (site.root / "link").symlink_to("../service")
    assert site.write(site.root / "link/b.conf") == REFUSED
    (site.service / "way").symlink_to(site.root)
    os.lchown(site.service / "way", NOBODY, NOBODY)
    assert site.run("take-files", "files", str(site.service), "way/a.conf") == REFUSED
    (site.root / "link").unlink()
    assert site.unharmed()


def test_a_link_of_roots_into_a_folder_of_roots_means_what_it_leads_to(site: Site) -> None:
    (site.base / "usr/lib").mkdir(parents=True)
    (site.base / "lib").symlink_to("usr/lib")
    assert site.write(site.base / "lib/deep/b.conf") == 0
    written = site.base / "usr/lib/deep/b.conf"
    assert written.read_text() == "component's" and not site.source.exists()
    assert (written.stat().st_uid, written.stat().st_mode & 0o7777) == (NOBODY, 0o644)
    assert written.parent.stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_that_a_group_or_all_may_write_is_refused(site: Site, mode: int) -> None:
    shared = site.base / "shared"
    shared.mkdir()
    shared.chmod(mode)
    assert site.write(shared / "a.conf") == REFUSED
    assert list(shared.iterdir()) == []
