"""Packs the files of one version as deb, rpm and tar.gz.

All scripts of the packages start with lifecycle.sh and end with the steps of their format.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.packages.runtime import ARCHITECTURES, CannotBuild, require_program

HERE = Path(__file__).parent
NAME = "kubenode-agent"
DEB_SCRIPTS: Mapping[str, str] = {
    "postinst": '[ "$1" != configure ] || activate\n',
    "prerm": 'case "$1" in upgrade) keep_running ;; remove) stop_agent ;; esac\n',
    "postrm": 'case "$1" in remove | purge) remove_files ;; esac\n[ "$1" != purge ] || purge\n',
}
"""`remove` keeps what the agent must not forget (which requests were done), `purge` does not."""
RPM_SCRIPTS: Mapping[str, str] = {
    "pre": '[ "$1" = 1 ] || keep_running\n',
    "post": "activate\n",
    "preun": '[ "$1" != 0 ] || stop_agent\n',
    "postun": '[ "$1" != 0 ] || remove_files\n',
}


@dataclass(frozen=True, slots=True)
class AgentTree:
    """Files to pack.

    root: folder that stands for / on the host.
    architecture: as dpkg names it.
    seconds: SOURCE_DATE_EPOCH.
    """

    root: Path
    version: str
    architecture: str
    seconds: int

    def fill(self, name: str) -> str:
        """Return the text of a template beside this file."""
        text = (HERE / name).read_text()
        if "@LIFECYCLE@" in text:
            text = text.replace("@LIFECYCLE@", (HERE / "lifecycle.sh").read_text().rstrip())
        text = text.replace("@RPM_ARCHITECTURE@", ARCHITECTURES[self.architecture].rpm)
        text = text.replace("@ARCHITECTURE@", self.architecture)
        return text.replace("@VERSION@", self.version)

    def script(self, steps: str) -> str:
        """Return a script of a package. `steps`: what follows after the functions."""
        return f"{self.fill('lifecycle.sh')}\n{steps}"

    def run(self, *argv: str | Path) -> None:
        """Run a program that writes a package. Raises CannotBuild."""
        epoch = {"SOURCE_DATE_EPOCH": str(self.seconds), "LC_ALL": "C"}
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, env={**os.environ, **epoch}
        )
        if done.returncode != 0:
            raise CannotBuild(f"{argv[0]} failed: {done.stderr.strip()[-2000:]}")


def write_control(tree: AgentTree, folder: Path) -> None:
    """Write the control file and the maintainer scripts of the deb."""
    folder.mkdir()
    (folder / "control").write_text(tree.fill("deb-control"))
    for name, steps in DEB_SCRIPTS.items():
        (folder / name).write_text(f"#!/bin/sh\nset -e\n{tree.script(steps)}")
        (folder / name).chmod(0o755)


def pack_deb(tree: AgentTree, out: Path) -> Path:
    require_program("dpkg-deb", "dpkg")
    control = tree.root / "DEBIAN"
    write_control(tree, control)
    for path in (*control.iterdir(), control):
        os.utime(path, (tree.seconds, tree.seconds))
    os.utime(tree.root, (tree.seconds, tree.seconds))
    package = out / f"{NAME}_{tree.version}_{tree.architecture}.deb"
    tree.run("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", tree.root, package)
    shutil.rmtree(control)
    return package


def spec_of(tree: AgentTree) -> str:
    """Return the spec file of the rpm."""
    scripts = [f"%{name}\nset -e\n{tree.script(steps)}" for name, steps in RPM_SCRIPTS.items()]
    return tree.fill("rpm.spec").replace("@SCRIPTS@", "".join(scripts))


def pack_rpm(tree: AgentTree, out: Path) -> Path:
    require_program("rpmbuild", "rpm")
    machine = ARCHITECTURES[tree.architecture].rpm
    with tempfile.TemporaryDirectory(prefix="kubenode-rpm-") as work:
        spec = Path(work) / "agent.spec"
        spec.write_text(spec_of(tree))
        made = {"_topdir": work, "_dbpath": f"{work}/db", "_rpmdir": f"{work}/made"}
        defines = [f"--define={key} {value}" for key, value in {**made, "tree": tree.root}.items()]
        tree.run("rpmbuild", "-bb", "--quiet", f"--target={machine}-linux", *defines, spec)
        (built,) = Path(work, "made").rglob("*.rpm")
        package = out / f"{NAME}-{tree.version}-1.{machine}.rpm"
        shutil.move(built, package)
    return package


def pack_tar(tree: AgentTree, out: Path) -> Path:
    """Pack the version's folder, the units and a script that installs and removes them."""
    package = out / f"{NAME}-{tree.version}-linux-{tree.architecture}.tar.gz"
    with tempfile.TemporaryDirectory(prefix="kubenode-tar-") as work:
        folder = Path(work) / NAME
        (folder / "systemd").mkdir(parents=True)
        for unit in sorted((tree.root / "usr/lib/systemd/system").iterdir()):
            shutil.copyfile(unit, folder / "systemd" / unit.name)
        archive = Path(work) / "agent.tar"
        (folder / "control").write_text(tree.fill("deb-control"))
        (folder / "setup.sh").write_text(tree.fill("setup.sh"))
        version = tree.root / "opt/kubenode-agent" / tree.version
        shutil.copytree(version, folder / tree.version, symlinks=True, copy_function=os.link)
        tree.run(
            *("tar", "--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0"),
            *("--numeric-owner", "--mode=u+rwX,go+rX,go-w", f"--mtime=@{tree.seconds}"),
            *(f"--file={archive}", f"--directory={work}"),
            *(f"{NAME}/{name}" for name in ("control", "setup.sh", "systemd", tree.version)),
        )
        tree.run("gzip", "--no-name", "-6", archive)
        shutil.move(f"{archive}.gz", package)
    return package


PACKERS: Mapping[str, Callable[[AgentTree, Path], Path]] = {
    "deb": pack_deb,
    "rpm": pack_rpm,
    "tar": pack_tar,
}
FORMATS = tuple(PACKERS)
