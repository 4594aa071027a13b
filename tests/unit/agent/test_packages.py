"""What the packages ship, and what their scripts promise. They are not installed here."""

import subprocess
from pathlib import Path

import pytest

from agent.packages.formats import (
    DEB_SCRIPTS,
    HERE,
    RPM_SCRIPTS,
    AgentTree,
    spec_of,
    write_control,
)
from agent.packages.pins import NEEDS, CannotPin, pins
from agent.packages.runtime import PYTHON

TREE = AgentTree(Path("/nowhere"), "0.1.0", "arm64", 0)


def is_shell(text: str) -> None:
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def test_deb_names_version_and_architecture_and_needs_no_python(tmp_path: Path) -> None:
    write_control(TREE, tmp_path / "DEBIAN")
    text = (tmp_path / "DEBIAN/control").read_text()
    assert "Version: 0.1.0\nArchitecture: arm64\n" in text
    assert "python" not in text.lower().replace("its own cpython", "")
    assert "@" not in text.replace("kubenode@localhost", "")


@pytest.mark.parametrize("name", DEB_SCRIPTS)
def test_maintainer_script_is_executable_shell_with_its_version(name: str, tmp_path: Path) -> None:
    write_control(TREE, tmp_path / "DEBIAN")
    script = tmp_path / "DEBIAN" / name
    assert script.stat().st_mode & 0o777 == 0o755
    assert script.read_text().startswith("#!/bin/sh\n")
    assert "version=0.1.0\n" in script.read_text()
    is_shell(script.read_text())


def test_spec_has_every_script_and_the_names_of_rpm() -> None:
    text = spec_of(TREE)
    assert "Version: 0.1.0\n" in text and "@" not in text.replace('"$@"', "")
    for name, steps in RPM_SCRIPTS.items():
        _, _, script = text.partition(f"%{name}\n")
        is_shell(script.partition("\n%")[0])
        assert steps in script


def test_setup_of_the_archive_is_shell_for_its_architecture() -> None:
    text = TREE.fill("setup.sh")
    is_shell(text)
    assert '[ "$(uname -m)" = aarch64 ]' in text
    assert "@" not in text.replace('"$@"', "")


@pytest.mark.parametrize("name", ["prove", "proven", "lifecycle.sh", "setup.sh"])
def test_steps_that_replace_a_version_do_not_start_its_agent(name: str) -> None:
    commands = [line for line in (HERE / name).read_text().splitlines() if "-m agent" in line]
    assert not commands, "what is proven may be what is broken"


def test_everything_that_the_agent_needs_is_pinned_with_hashes() -> None:
    text = pins(PYTHON)
    blocks = [block for block in text.split("\n") if block and not block.startswith(" ")]
    named = {block.partition("==")[0] for block in blocks}
    assert set(NEEDS) <= named
    assert text.count("--hash=") >= len(blocks)


def test_a_lock_that_lacks_something_is_said(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("aiohttp==3.0 \\\n    --hash=sha256:00\n")
    with pytest.raises(CannotPin, match=r"lacks .*msgspec.*lock again"):
        pins("3.11", lock)
