"""A storm of alerts: how many a second Host Doctor stores at a real API server, and with how much
memory.

The same alerts are told three times over HTTP: for the first time (made), again (nothing is
written), and resolved. Then they are parsed alone, without any I/O. Processor time is Host Doctor's
own process, beside which the senders hardly count; that of the API server is not in it.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from support.control_plane import ControlPlane
from support.doctoring import TOKEN, Doctor, doctoring
from support.host_doctor import NOW, alert, group
from support.remedy_cluster import install_crds

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from remedy.hostdoctor.parsers import PARSERS

OF_A_GROUP, AT_ONCE = 100, 8


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--alerts", type=int, default=10_000, metavar="N")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    with ControlPlane() as plane:
        install_crds(plane)
        return asyncio.run(_figures(plane, chosen.alerts))


async def _figures(plane: ControlPlane, alerts: int) -> dict[str, Any]:
    kube = Kube(connect(str(plane.kubeconfig)))  # its rate is that of production
    found: dict[str, Any] = {"alerts": alerts}
    firing, resolved = bodies(alerts, None), bodies(alerts, 60.0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with doctoring(kube, Path(folder)) as doctor:
                before = resident()
                found["made"] = await told(doctor, firing, alerts)
                found["repeated"] = await told(doctor, firing, alerts)
                found["resolved"] = await told(doctor, resolved, alerts)
                found["resident_mib_more"] = round((resident() - before) / 2**20)
    finally:
        await kube.close()
    found["parsed"] = parsed(firing, alerts)
    return found


def bodies(alerts: int, ends: float | None) -> list[bytes]:
    """Groups as Alertmanager sends them; every alert of another node."""
    found = []
    for first in range(0, alerts, OF_A_GROUP):
        numbers = range(first, min(first + OF_A_GROUP, alerts))
        told = [
            alert(
                starts=0,
                ends=ends,
                fingerprint=f"{n:016x}",
                instance=f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}:9100",
                job="node-exporter",
                severity="critical",
                cluster="prod",
                annotations={"description": "Clock skew detected. " * 8},
            )
            for n in numbers
        ]
        found.append(json.dumps(group(*told)).encode())
    return found


async def told(doctor: Doctor, groups: Sequence[bytes], alerts: int) -> dict[str, Any]:
    """Every group until it is taken, as Alertmanager does; `tries` counts all posts."""
    url, tries, slowest = f"{doctor.url}/v1/alertmanager", 0, 0.0
    headers = {"Authorization": f"Bearer {TOKEN}"}
    waiting = iter(groups)

    async def send(session: aiohttp.ClientSession) -> None:
        nonlocal tries, slowest
        for body in waiting:
            status = 0
            while status != 200:
                began = time.perf_counter()
                async with session.post(url, data=body, headers=headers) as answer:
                    await answer.read()
                    status = answer.status
                tries += 1
                slowest = max(slowest, time.perf_counter() - began)

    began, worked = time.perf_counter(), time.process_time()
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(send(session))
    seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 2),
        "alerts_per_second": round(alerts / seconds),
        "processor_ms_per_alert": round((time.process_time() - worked) * 1000 / alerts, 2),
        "tries": tries,
        "slowest_answer_ms": round(slowest * 1000),
    }


def parsed(groups: Sequence[bytes], alerts: int) -> dict[str, Any]:
    began = time.perf_counter()
    for body in groups:
        PARSERS["alertmanager"](json.loads(body), NOW)
    return {"alerts_per_second": round(alerts / (time.perf_counter() - began))}


def resident() -> int:
    """Bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
