"""Deliveries over HTTP become HostEvents at an API server, and answers mean what they say."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.doctoring import TOKEN, LaterClock, doctoring, make_node, stored
from support.embedded import EmbeddedPlane
from support.host_doctor import alert, group
from support.running import until

from kubenode.api.v1alpha1.hostevent import HostEventPhase
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import ServerUnreachable
from kubenode.runtime.serverlimits import HttpLimits
from remedy.hostdoctor import app, desk, limits
from remedy.hostdoctor.gate import DeliveryAuthenticatorSettings
from remedy.hostdoctor.lifecycle import RETENTION
from remedy.hostdoctor.server import HostDoctorSettings

pytestmark = pytest.mark.integration
AM = "/v1/alertmanager"


def refusals(doctor: Any, endpoint: str, why: str) -> float:
    name = "kubenode_hostdoctor_refusals_total"
    return float(doctor.count(name, endpoint=endpoint, why=why))


async def test_an_alert_is_stored_before_it_is_answered_and_completes(
    kube: Kube, tmp_path: Path
) -> None:
    await make_node(kube, "a", "10.0.0.1")
    async with doctoring(kube, tmp_path) as doctor:
        await until(lambda: doctor.desk.index.exists("a", ""), 60)
        firing = group(alert(instance="10.0.0.1:9100"), alert(fingerprint="b", cluster="prod"))
        status, answer, _ = await doctor.post(AM, firing)
        assert (status, answer["changed"], answer["unresolved"]) == (200, 2, 1)
        about = {e.spec.external_id: e for e in await stored(kube)}
        assert about["aa01"].spec.node.name == "a"
        assert about["aa01"].status.phase is HostEventPhase.ACTIVE
        assert about["aa01"].status.observed_generation == about["aa01"].metadata.generation
        assert about["b"].status.conditions[0].reason == "NoHost"
        assert (await doctor.post(AM, firing))[1]["known"] == 2
        over = group(alert(ends=60, instance="10.0.0.1:9100"))
        assert (await doctor.post(AM, over))[1]["changed"] == 1
        event = next(e for e in await stored(kube) if e.spec.external_id == "aa01")
        assert event.status.phase is HostEventPhase.COMPLETED
        assert [line.outcome for line in doctor.audit.lines] == ["Done", "Done"]
        metric = "kubenode_hostdoctor_events_total"
        assert doctor.count(metric, source="Alertmanager", outcome="changed") == 3


async def test_what_is_refused_is_refused_so_that_the_sender_does_the_right_thing(
    kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "LONGEST_BODY", 20_000)
    async with doctoring(kube, tmp_path) as doctor:
        one = group(alert())
        cases: list[tuple[Any, str, int, str]] = [
            (one, "", 401, "unauthorized"),
            (one, "wrong-0123456789abcdef", 401, "unauthorized"),
            (b"{", TOKEN, 400, "malformed"),
            (b"[" * 10_000, TOKEN, 400, "malformed"),
            ({"version": "9", "alerts": []}, TOKEN, 400, "malformed"),
            (b" " * 30_000, TOKEN, 413, "too_large"),
        ]
        for body, token, code, why in cases:
            before = refusals(doctor, "alertmanager", why)
            status, answer, _ = await doctor.post(AM, body, token)
            assert (status, refusals(doctor, "alertmanager", why)) == (code, before + 1), answer
            assert answer["message"]
        status, _, _ = await doctor.post("/v1/hosts/a/events", {}, TOKEN)
        assert status == 403, "a bearer speaks for no agent"
        monkeypatch.setattr(desk, "MOST_WAITING", 0)
        doctor.desk._waiting = 1
        status, _, headers = await doctor.post(AM, one)
        assert (status, headers["Retry-After"]) == (503, "2"), "Alertmanager tries 5xx again"
        doctor.desk._waiting = 0
        assert await stored(kube) == []


async def test_a_caller_that_sends_too_often_is_told_to_wait(
    kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RATE", 0.001)
    monkeypatch.setattr(limits, "BURST", 2.0)
    async with doctoring(kube, tmp_path) as doctor:
        codes = [(await doctor.post(AM, group()))[0] for _ in range(3)]
        assert codes == [200, 200, 503], "429 would make Alertmanager drop it"


async def test_an_api_server_that_is_away_loses_nothing(
    plane: EmbeddedPlane, kube: Kube, tmp_path: Path
) -> None:
    async with doctoring(kube, tmp_path) as doctor:
        plane.kill()
        try:
            status, _, headers = await doctor.post(AM, group(alert()))
            assert (status, headers["Retry-After"]) == (503, "2")
        finally:
            plane.start()
        status, answer, _ = await doctor.post(AM, group(alert()))
        assert (status, answer["changed"]) == (200, 1)
        assert len(await stored(kube)) == 1


async def test_a_death_between_the_two_writes_is_healed_by_the_next_delivery(
    kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with doctoring(kube, tmp_path, leader=False) as doctor:
        patch = kube.patch

        async def lost(*given: Any, **more: Any) -> Any:
            monkeypatch.setattr(kube, "patch", patch)
            raise ServerUnreachable("cut")

        monkeypatch.setattr(kube, "patch", lost)
        assert (await doctor.post(AM, group(alert())))[0] == 503
        (half,) = await stored(kube)
        assert half.status.phase is None
        assert (await doctor.post(AM, group(alert())))[0] == 200
        (whole,) = await stored(kube)
        assert (whole.status.phase, whole.status.seen) == (HostEventPhase.ACTIVE, 1)


async def test_two_replicas_that_are_told_at_once_make_one_event_of_each(
    kube: Kube, tmp_path: Path
) -> None:
    async with (
        doctoring(kube, tmp_path) as one,
        doctoring(kube, tmp_path, leader=False) as other,
    ):
        firing = [alert(fingerprint=f"f{n}", starts=0, node="x") for n in range(40)]
        ended = [alert(fingerprint=f"f{n}", starts=0, ends=60, node="x") for n in range(40)]
        again = [alert(fingerprint=f"f{n}", starts=90, node="x") for n in range(40)]
        told = [group(*firing), group(*ended), group(*again)]
        posts = [doctor.post(AM, each) for each in told * 2 for doctor in (one, other)]
        answers = await asyncio.gather(*posts)
        assert {status for status, _, _ in answers} == {200}
        events = await stored(kube)
        assert len(events) == 40
        assert {e.status.phase for e in events} == {HostEventPhase.ACTIVE}
        assert all(1 <= e.status.seen <= 2 for e in events)
        assert not one.desk.writer._locks and not other.desk.writer._locks


async def test_an_event_finds_its_node_when_that_appears(kube: Kube, tmp_path: Path) -> None:
    async with doctoring(kube, tmp_path) as doctor:
        await doctor.post(AM, group(alert(node="late")))
        await make_node(kube, "late")

        def resolved() -> bool:
            conditions = [c for e in doctor.events.cache.values() for c in e.status.conditions]
            return any(c.type == "Resolved" and c.status == "True" for c in conditions)

        await until(resolved, 60)
        (event,) = await stored(kube)
        assert event.spec.node.name == "late"


async def test_a_closed_event_is_removed_a_day_later(kube: Kube, tmp_path: Path) -> None:
    async with doctoring(kube, tmp_path, leader=False) as doctor:
        await doctor.post(AM, group(alert(ends=60), alert(fingerprint="open")))
        await until(lambda: len(doctor.events.cache) == 2, 60)
        doctor.sweep.clock = LaterClock(RETENTION + timedelta(minutes=1))
        for name in list(doctor.events.cache):
            await doctor.sweep.reconcile(name)
        (left,) = await stored(kube)
        assert left.spec.external_id == "open"


async def test_a_slow_head_and_a_slow_body_hold_nothing(kube: Kube, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\n")
    quick = HttpLimits(read_seconds=0.3)
    settings = HostDoctorSettings(
        0, tls=False, gate=DeliveryAuthenticatorSettings((file,)), limits=quick
    )
    async with doctoring(kube, tmp_path, settings=settings) as doctor:
        head = f"POST {AM} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        whole = f"{head}Content-Length: 100\r\n\r\n"
        for sent, said in ((b"", b""), (head.encode(), b""), (whole.encode() + b"{", b"408")):
            reader, writer = await asyncio.open_connection("127.0.0.1", doctor.server.port)
            writer.write(sent)
            answer = await asyncio.wait_for(reader.read(), 20)
            assert said in answer and (said or not answer)
            writer.close()
        assert (await doctor.post(AM, group(alert())))[0] == 200


async def test_cloud_events_of_every_mode_are_taken(kube: Kube, tmp_path: Path) -> None:
    async with doctoring(kube, tmp_path) as doctor:
        data = b'{"class": "Maintenance", "host": {"names": ["a"]}}'
        headers = {
            "ce-specversion": "1.0",
            "ce-id": "1",
            "ce-source": "/dc",
            "ce-type": "io.kubenode.hostevent",
            "content-type": "application/json",
        }
        status, answer, _ = await doctor.post("/v1/cloudevents", data, headers=headers)
        assert (status, answer["changed"]) == (200, 1)
        (event,) = await stored(kube)
        assert (event.spec.source, event.spec.external_id) == ("Webhook", "/dc/1")


async def test_alibaba_clouds_notification_is_taken_with_its_own_token_alone(
    kube: Kube, tmp_path: Path
) -> None:
    cloud, others = tmp_path / "alibaba", tmp_path / "alertmanager"
    cloud.write_text("of-the-cloud-0123456789\n")
    others.write_text(f"{TOKEN}\n")
    settings = HostDoctorSettings(0, tls=False, gate=DeliveryAuthenticatorSettings((cloud, others)))
    await make_node(kube, "a", provider="cn-hangzhou.i-bp1ecr5go2go0001")
    about = {
        "eventId": "e-1",
        "instanceId": "i-bp1ecr5go2go0001",
        "eventType": "SystemMaintenance.Reboot",
        "eventStatus": "Scheduled",
        "notBefore": "2099-01-12T00:00:00Z",
    }
    notice = {"id": "1", "name": "Instance:SystemMaintenance.Reboot:Scheduled", "content": about}
    foreign = {**notice, "content": {**about, "instanceId": "i-of-somebody"}}
    async with doctoring(kube, tmp_path, settings=settings) as doctor:
        await until(lambda: doctor.desk.index.exists("a", ""), 60)
        shown = "/v1/alibaba?token=of-the-cloud-0123456789"
        assert (await doctor.post("/v1/alibaba", notice))[0] == 403
        assert (await doctor.post("/v1/alibaba?token=wrong-0123456789abcdef", notice, ""))[0] == 401
        assert (await doctor.post(AM, group(alert()), "of-the-cloud-0123456789"))[0] == 403
        assert (await doctor.post(f"{AM}?token={TOKEN}", group(alert()), ""))[0] == 401
        assert (await doctor.post(shown, b" " * 2**19, ""))[0] == 413
        status, answer, _ = await doctor.post(shown, foreign, "")
        assert (status, answer["changed"], len(answer["ignored"])) == (200, 0, 1)
        status, answer, _ = await doctor.post(shown, notice, "")
        assert (status, answer["changed"]) == (200, 1)
        again = await doctor.post("/v1/alibaba", notice, "of-the-cloud-0123456789")
        assert again[1]["known"] == 1
        (event,) = await stored(kube)
        assert (event.spec.source, event.spec.node.name) == ("AlibabaCloud", "a")
