"""`kubenode record` on a live API server: a replay of what it wrote makes the same jobs."""

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.command import kubenode, started
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster, connected, install_crds, now, operating, stamp
from support.remedy_engine import two_engines
from support.replay_world import a_rule
from support.running import running, until

from kubenode.api.v1alpha1 import HostEvent, RemedyOperationJob
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from simulation.replay.record_command import RecordingWriter, opened, record
from simulation.replay.recordings import entries
from simulation.replay.replay_command import replay

pytestmark = pytest.mark.integration
LOOK = [{"name": "look", "steps": [{"notify": {}}, {"wait": {"for": "1h", "timeout": "2h"}}]}]
TELL = [{"name": "tell", "steps": [{"cordon": {}}, {"wait": {"for": "1h", "timeout": "2h"}}]}]
RULES: dict[str, dict[str, Any]] = {
    "sick": {"when": {"condition": {"type": "Sick", "for": "3s"}}},
    "oops": {"when": {"event": {"reason": "Oops", "count": 3, "within": "1m"}}, "ladder": LOOK},
    "reboot": {"when": {"hostEvent": {"class": "Reboot"}}, "ladder": LOOK},
    "labelled": {"when": {"label": {"key": "broken", "exists": True}}, "ladder": LOOK},
}


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        install_crds(plane)  # type: ignore[arg-type]
        yield plane


async def drive(cluster: Cluster) -> None:
    """Faults of every kind, one that ends in time; until those that stay have their jobs."""
    await cluster.say("a", "Sick", "True")
    await cluster.say("b", "Sick", "True")
    for count in (1, 2, 3):
        await event(cluster, "c", count)
    await host_event(cluster, "d")
    await cluster.kube.patch(paths.node("e"), {"metadata": {"labels": {"broken": "yes"}}})
    await cluster.say("b", "Sick", "False")
    for node in "acde":
        await cluster.wait(job_of(node))
    await asyncio.sleep(1.0)  # a job may be due later by what the recorder heard


def job_of(node: str) -> Callable[[RemedyOperationJob], bool]:
    return lambda job: job.spec.node_name == node


async def event(cluster: Cluster, node: str, count: int) -> None:
    body = {
        "metadata": {"name": "oops.1", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": node, "apiVersion": "v1"},
        "type": "Warning",
        "reason": "Oops",
        "message": "it happened",
        "count": count,
        "firstTimestamp": stamp(),
        "lastTimestamp": stamp(),
        "source": {"component": "test"},
    }
    where = "/api/v1/namespaces/default/events"
    if count == 1:
        await cluster.kube.create(where, body)
    else:
        changes = {"count": count, "lastTimestamp": stamp()}
        await cluster.kube.patch(f"{where}/oops.1", changes)


async def host_event(cluster: Cluster, node: str) -> None:
    where = paths.custom(HostEvent.resource.plural)
    spec = {"source": "AWS", "externalID": "e-1", "class": "Reboot", "node": {"name": node}}
    body = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "HostEvent",
        "metadata": {"name": "e-1"},
        "spec": spec,
    }
    await cluster.kube.create(where, body)
    at = now().isoformat()
    status = {"phase": "Active", "firstSeen": at, "lastSeen": at, "seen": 1}
    await cluster.kube.patch(f"{where}/e-1/status", {"status": status})


async def lived(plane: EmbeddedPlane, file: Path) -> dict[tuple[str, str], float]:
    """By node and rule when the real operator made a job, while it was recorded."""
    async with connected(plane) as cluster:
        for name in "abcdef":
            labels = {"topology.kubernetes.io/zone": "z1"}
            await cluster.node(name, labels=labels, annotations={"note": "x"})
        for name, spec in RULES.items():
            full = {**a_rule(name, ladder=TELL).spec.to_dict(), **spec}
            await cluster.rule(name, **full)
        over = asyncio.Event()
        with opened(str(file)) as sink:
            written = RecordingWriter(sink)
            recording = record(cluster.kube, written, SystemClock(), None, over)
            operator = cluster.operator(two_engines())
            async with running(recording) as recorded, operating(operator):
                await until(lambda: written.entries > 0)
                await drive(cluster)
                over.set()
                await recorded
        return {
            (job.spec.node_name, job.spec.remedier.name): made.timestamp()
            for job in await cluster.jobs()
            if job.spec.remedier is not None
            and (made := job.metadata.creation_timestamp) is not None
        }


def test_a_replay_of_what_was_recorded_makes_the_same_jobs(
    plane: EmbeddedPlane, tmp_path: Path
) -> None:
    file = tmp_path / "rec.jsonl.zst"
    real = asyncio.run(lived(plane, file))
    assert set(real) == {("a", "sick"), ("c", "oops"), ("d", "reboot"), ("e", "labelled")}
    rules = [a_rule(name, **{"ladder": TELL, **spec}) for name, spec in RULES.items()]
    replayed = replay(entries([str(file)]), [rules])
    (world,) = replayed.worlds
    made = {(job.node, job.remedier): job.made.timestamp() for job in world.jobs}
    assert set(made) == set(real)
    for key, at in made.items():
        late = real[key] - at  # creation times of the API server are whole seconds
        assert -2.0 < late < 10.0, (key, "the real one has a machine to share")
    cordons = [entry for _, entry in entries([str(file)]) if entry.cordon is not None]
    assert cordons == [], "what we did ourselves is no signal"


def test_an_interrupt_ends_a_recording_that_is_whole(plane: EmbeddedPlane, tmp_path: Path) -> None:
    file = tmp_path / "rec.jsonl.zst"
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(a_node("x")))
    arguments = ("record", "--kubeconfig", plane.kubeconfig, "-f", file)
    with started(*arguments) as process:
        partial = file.with_name("rec.jsonl.zst.partial")
        wait_for(partial, b'"x"')
        plane.kubectl("label", "node", "x", "colour=red")
        wait_for(partial, b"colour")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    found = [entry for _, entry in entries([str(file)])]
    assert [e.label for e in found if e.label is not None] == [{"colour": "red"}]
    assert list(tmp_path.iterdir()) == [file]
    result = kubenode("rules", "replay", "--from", file, "-o", "json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["nodes"] >= 1


def test_it_ends_by_itself_after_its_time(plane: EmbeddedPlane, tmp_path: Path) -> None:
    result = kubenode("record", "--kubeconfig", plane.kubeconfig, "--for", "500ms")
    assert result.returncode == 0, result.stderr
    first = json.loads(result.stdout.splitlines()[0])
    assert first["alertSource"] == "silent"
    assert "recorded" in result.stderr


def test_a_place_that_cannot_be_written_is_told(plane: EmbeddedPlane, tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "rec.jsonl"
    result = kubenode("record", "--kubeconfig", plane.kubeconfig, "-f", nowhere, "--for", "1s")
    assert result.returncode == 2 and "cannot be written" in result.stderr
    assert "Traceback" not in result.stderr


async def bounded(plane: EmbeddedPlane, file: Path) -> RecordingWriter:
    async with connected(plane) as cluster:
        for n in range(10):
            await cluster.node(f"n{n}")
        with opened(str(file)) as sink:
            written = RecordingWriter(sink, most=2000)
            over = asyncio.Event()
            length = timedelta(minutes=5)
            await asyncio.wait_for(
                record(cluster.kube, written, SystemClock(), length, over), timeout=20
            )
        return written


def test_a_recording_is_bounded(plane: EmbeddedPlane, tmp_path: Path) -> None:
    file = tmp_path / "rec.jsonl"
    written = asyncio.run(bounded(plane, file))
    assert written.bytes <= 2000 and file.stat().st_size == written.bytes
    assert len(list(entries([str(file)]))) == written.entries > 0


def a_node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def wait_for(path: Path, words: bytes, seconds: float = 40) -> None:
    """Until what the recorder has written so far holds these words."""
    end = time.monotonic() + seconds
    while not path.exists() or words not in unpacked(path.read_bytes()):
        assert time.monotonic() < end, f"{words!r} did not appear in {path}"
        time.sleep(0.05)


def unpacked(beginning: bytes) -> bytes:
    """Of a file that is still written."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(beginning) if beginning else b""
