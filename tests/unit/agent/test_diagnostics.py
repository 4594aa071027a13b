"""CollectDiagnostics: a bounded bundle without secrets, that never fills a disk."""

import os
import tarfile
from collections import namedtuple
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.agent_world import World, a_job, until_answered

from agent.actions import diagnostics
from agent.actions.diagnostics import HIDDEN, MOST_BUNDLES, Bundles, redacted
from agent.host import HostError
from agent.wire import Answer, Job

Space = namedtuple("Space", "f_bavail f_frsize")
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"


def a_collect(*bundle: str) -> Job:
    raw = msgspec.to_builtins(a_job(asked={"name": "collect"}))
    steps = [{"collect": {"bundle": list(bundle), "timeout": "1m"}}]
    raw["spec"]["ladder"] = [{"name": "look", "steps": steps}]
    return msgspec.convert(raw, Job)


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a host says to them."""
    parts: dict[str, Any] = {
        "dmesg": [["/bin/echo", "oops"]],
        "journal": [["/bin/echo", f"Authorization: Bearer {TOKEN}"], ["/nowhere/tool"]],
        "runtime": [["/bin/sh", "-c", "echo half; exit 3"]],
    }
    monkeypatch.setattr(diagnostics, "PARTS", parts)


async def collected(tmp_path: Path, *bundle: str) -> Answer:
    world = World(tmp_path / "requests", job=a_collect(*bundle))
    await until_answered(world)
    assert world.answer_now is not None
    return world.answer_now


async def test_a_bundle_has_its_parts_and_the_answer_says_where_it_is(tmp_path: Path) -> None:
    answer = await collected(tmp_path, "dmesg", "journal", "runtime")
    assert answer.state == "Done", answer
    path = Path(answer.output.partition(" ")[0])
    assert path.parent == tmp_path / "diagnostics" and mode(path) == 0o600
    texts = unpacked(path)
    assert set(texts) == {"dmesg.txt", "journal.txt", "runtime.txt"}
    assert "oops" in texts["dmesg.txt"]
    assert TOKEN not in texts["journal.txt"] and HIDDEN in texts["journal.txt"]
    assert "/nowhere/tool: No such file or directory" in texts["journal.txt"]
    assert "half" in texts["runtime.txt"]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as bundle:
        files = {Path(m.name).name: bundle.extractfile(m) for m in bundle.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


async def test_an_unknown_part_is_refused_by_name(tmp_path: Path) -> None:
    answer = await collected(tmp_path, "dmesg", "shadow")
    assert answer.state == "Refused" and "shadow" in answer.output


async def test_a_disk_that_is_nearly_full_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: Space(10, 4096))
    answer = await collected(tmp_path, "dmesg")
    assert answer.state == "Failed" and "are free" in answer.output
    assert list((tmp_path / "diagnostics").iterdir()) == []


async def test_the_oldest_bundles_go_first(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path / "diagnostics")
    for number in range(MOST_BUNDLES + 3):
        await bundles.save(f"b{number}", {"dmesg": "x"})
    kept = {path.name for path in bundles.folder.iterdir()}
    assert len(kept) == MOST_BUNDLES and f"b{MOST_BUNDLES + 2}.tar.gz" in kept


async def test_a_folder_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="bundle in"):
        await Bundles(tmp_path / "file" / "diagnostics").save("b", {})


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=hunter22 user=bob", "hunter22"),
        ('"client_secret": "abc123def"', "abc123def"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("curl -H 'authorization: bearer abcdef'", "abcdef"),
        (f"token {TOKEN} was used", TOKEN),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "wJalrXUtnFEMI"),
        ("key AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("proxy http://bob:pa55@proxy:3128", "pa55"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
    ],
)
def test_secrets_are_hidden(text: str, secret: str) -> None:
    assert secret not in redacted(text) and HIDDEN in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "kubelet: Error: failed to renew token for pod web-1",
        "INFO: task dockerd:1042 blocked for more than 120 seconds.",
        "10.0.0.1:6443: connect: connection refused",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text
