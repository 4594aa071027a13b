"""What the package ships, and what its scripts promise: laid out, not installed (see tests/e2e)."""

import subprocess
from pathlib import Path

import pytest

from agent.deb.build import HERE, SCRIPTS, control
from agent.deb.pins import NEEDS, CannotPin, pins

VERSION = "0.1.0"


def test_the_package_names_its_version_and_the_interpreter_it_was_built_for(tmp_path: Path) -> None:
    control(tmp_path, VERSION, "3.11")
    text = (tmp_path / "DEBIAN/control").read_text()
    assert "Version: 0.1.0\n" in text
    assert "python3 (>= 3.11~), python3 (<< 3.12~)" in text
    assert "@" not in text.replace("kubenode@localhost", "")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_maintainer_script_speaks_of_its_version_and_is_a_shell_script(
    name: str, tmp_path: Path
) -> None:
    control(tmp_path, VERSION, "3.11")
    script = tmp_path / "DEBIAN" / name
    assert script.stat().st_mode & 0o777 == 0o755
    assert "@VERSION@" not in script.read_text()
    subprocess.run(["sh", "-n", str(script)], check=True)


def test_the_proof_needs_nothing_of_what_it_proves() -> None:
    text = (HERE / "prove").read_text()
    assert text.startswith("#!/bin/sh\n")
    commands = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "python" not in commands.lower()
    subprocess.run(["sh", "-n", str(HERE / "prove")], check=True)


def test_everything_that_the_agent_needs_is_pinned_with_hashes() -> None:
    text = pins("3.11")
    blocks = [block for block in text.split("\n") if block and not block.startswith(" ")]
    named = {block.partition("==")[0] for block in blocks}
    assert set(NEEDS) <= named
    assert text.count("--hash=") >= len(blocks)


def test_a_lock_that_lacks_something_is_said(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("aiohttp==3.0 \\\n    --hash=sha256:00\n")
    with pytest.raises(CannotPin, match=r"lacks .*msgspec.*lock again"):
        pins("3.11", lock)
