"""A real Alertmanager tells Host Doctor, which stores it at a real API server."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from support.alerting import Alertmanager, NodeExporter
from support.daemons import free_port
from support.doctoring import TOKEN, Doctor, doctoring, make_node, stored
from support.prometheus import Prometheus
from support.running import until

from kubenode.api.v1alpha1.hostevent import HostEvent, HostEventPhase
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from remedy.hostdoctor.gate import DeliveryAuthenticatorSettings
from remedy.hostdoctor.parsers.about import ABOUT
from remedy.hostdoctor.server import SECRET, HostDoctorSettings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
LABELS = {"alertname": "NodeDiskIOError", "instance": "10.0.0.1:9100", "severity": "critical"}
SECONDS = 40.0
SYSTEM = "host-doctor-of-tests"
"""No other test makes it: the control plane is shared."""


def settings(port: int, token: Path) -> HostDoctorSettings:
    return HostDoctorSettings(port, tls=False, gate=DeliveryAuthenticatorSettings((token,)))


def token_file(folder: Path, text: str = TOKEN) -> Path:
    file = folder / "token"
    file.write_text(text)
    return file


async def has(doctor: Doctor, what: Callable[[HostEvent], bool], why: str) -> HostEvent:
    def found() -> HostEvent | None:
        return next((e for e in doctor.events.cache.values() if what(e)), None)

    await until(lambda: found() is not None, SECONDS, why)
    event = found()
    assert event is not None
    return event


def in_phase(phase: HostEventPhase) -> Callable[[HostEvent], bool]:
    return lambda event: event.status.phase is phase


async def test_an_alert_is_an_event_until_it_is_resolved_though_the_operator_restarts(
    real_kube: Kube, tmp_path: Path
) -> None:
    token, port, since = token_file(tmp_path), free_port(), SystemClock().now()
    await make_node(real_kube, "a", "10.0.0.1")
    with Alertmanager(tmp_path, f"http://127.0.0.1:{port}/v1/alertmanager", token) as alertmanager:
        async with doctoring(real_kube, tmp_path, settings=settings(port, token)) as doctor:
            await until(lambda: doctor.desk.index.exists("a", ""), SECONDS)
            alertmanager.fire(LABELS, since=since)
            event = await has(doctor, in_phase(HostEventPhase.ACTIVE), "it is active")
            assert event.spec.node.name == "a"
            assert event.spec.attributes == LABELS | {ABOUT: "other"}
            assert event.spec.message == "A test's alert."
        alertmanager.resolve(LABELS, since=since)
        await until(lambda: alertmanager.failures() > 0, SECONDS, "nobody listens")
        async with doctoring(real_kube, tmp_path, settings=settings(port, token)) as doctor:
            over = await has(doctor, in_phase(HostEventPhase.COMPLETED), "it is tried again")
            assert over.metadata.uid == event.metadata.uid
            assert over.spec.not_after is not None
            assert over.status.seen == 1
            alertmanager.fire(LABELS)
            again = await has(doctor, in_phase(HostEventPhase.ACTIVE), "it fires again")
            assert (again.metadata.uid, again.status.seen) == (event.metadata.uid, 2)
    assert len(await stored(real_kube)) == 1


async def test_what_the_api_server_does_not_take_is_sent_again(
    real_kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTPS, by the certificate that Host Doctor keeps in a Secret."""
    token, name = token_file(tmp_path), "kubenode-host-doctor.kubenode-system.svc"
    await real_kube.create(paths.namespaces(), {"metadata": {"name": SYSTEM}})
    own = HostDoctorSettings(
        0, namespace=SYSTEM, names=(name,), gate=DeliveryAuthenticatorSettings((token,))
    )
    async with doctoring(real_kube, tmp_path, settings=own) as doctor:
        secrets = paths.resource("/api/v1", "secrets", namespace=SYSTEM, name=SECRET)
        kept = (await real_kube.get(secrets))["data"]
        authority = tmp_path / "ca.crt"
        authority.write_bytes(base64.b64decode(kept["ca.crt"]))
        url = f"https://127.0.0.1:{doctor.server.port}/v1/alertmanager"
        with Alertmanager(tmp_path, url, token, authority, name) as alertmanager:
            monkeypatch.setattr("remedy.hostdoctor.desk.MOST_WAITING", 0)
            doctor.desk._waiting = 1
            alertmanager.fire(LABELS)
            busy = {"endpoint": "alertmanager", "why": "busy"}
            refused = "kubenode_hostdoctor_refusals_total"
            await until(lambda: doctor.count(refused, **busy) >= 2, SECONDS, "tried again")
            assert await stored(real_kube) == []
            doctor.desk._waiting = 0
            await has(doctor, in_phase(HostEventPhase.ACTIVE), "it is stored at last")


async def test_what_is_refused_for_good_is_not_sent_again(real_kube: Kube, tmp_path: Path) -> None:
    """Alertmanager drops what 4xx answers: so a token that is wrong is told, and loud."""
    wrong, ours = tmp_path / "wrong", token_file(tmp_path)
    wrong.write_text("another-token-0123456789")
    async with doctoring(real_kube, tmp_path, settings=settings(0, ours)) as doctor:
        with Alertmanager(tmp_path, f"{doctor.url}/v1/alertmanager", wrong) as alertmanager:
            alertmanager.fire(LABELS)
            await until(lambda: alertmanager.failures() > 0, SECONDS, "it is refused")
            name = "kubenode_hostdoctor_refusals_total"
            assert doctor.count(name, endpoint="alertmanager", why="unauthorized") >= 1
            assert await stored(real_kube) == []


async def test_a_real_prometheus_and_node_exporter(real_kube: Kube, tmp_path: Path) -> None:
    token = token_file(tmp_path)
    (tmp_path / "disk.prom").write_text("disk_errors 1\n")
    rules = tmp_path / "rules.yml"
    rules.write_text(
        '{"groups": [{"name": "t", "rules": [{"alert": "NodeDiskIOError",'
        ' "expr": "disk_errors > 0", "labels": {"severity": "critical"}},'
        ' {"alert": "Watchdog", "expr": "vector(1)"}]}]}'
    )
    await make_node(real_kube, "a", "127.0.0.1")
    async with doctoring(real_kube, tmp_path) as doctor:
        with (
            NodeExporter(tmp_path) as exporter,
            Alertmanager(tmp_path, f"{doctor.url}/v1/alertmanager", token) as alertmanager,
            Prometheus(tmp_path, [exporter.target], [rules], [f"127.0.0.1:{alertmanager.port}"]),
        ):
            event = await has(doctor, lambda e: e.spec.node.name == "a", "the disk fails")
            assert event.spec.attributes["instance"] == exporter.target
            watchdog = await has(
                doctor, lambda e: e.spec.attributes["alertname"] == "Watchdog", "it is alive"
            )
            assert watchdog.spec.node.name == ""
            (tmp_path / "disk.prom").write_text("disk_errors 0\n")
            await has(doctor, in_phase(HostEventPhase.COMPLETED), "the disk is well")
