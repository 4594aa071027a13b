"""`kubenode events` against an API server, and an agent's words with its own certificate."""

import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.doctoring import doctoring, make_node, stored
from support.embedded import EmbeddedPlane
from support.host_doctor import alert, group
from support.pki import Authority
from support.running import until

from kubenode.cli.exits import Refusal
from kubenode.cli.host_events import list_events
from kubenode.cli.options import Listing
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.tls.files import PemFiles
from remedy.hostdoctor.server import HostDoctorSettings

pytestmark = pytest.mark.integration
REBOOT = {
    "DocumentIncarnation": 4,
    "Events": [
        {
            "EventId": "A123BC45-1234-5678-AB90-ABCDEF123456",
            "EventStatus": "Scheduled",
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": ["vmss_1", "vmss_2"],
            "EventSource": "Platform",
            "NotBefore": "2126-01-10T10:15:00Z",
            "Description": "Host server is undergoing maintenance.",
            "DurationInSeconds": -1,
        }
    ],
}
VMSS = (
    "azure:///subscriptions/1b7b2e4a-0000-0000-0000-000000000000/resourceGroups/g/providers"
    "/Microsoft.Compute/virtualMachineScaleSets/vmss/virtualMachines/"
)


async def test_events_are_listed_open_ones_first(
    plane: EmbeddedPlane, kube: Kube, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await make_node(kube, "a", "10.0.0.1")
    async with doctoring(kube, tmp_path) as doctor:
        await until(lambda: doctor.desk.index.exists("a", ""), 60)
        told = [
            alert("DiskFails", fingerprint="1", instance="10.0.0.1:9100"),
            alert("KubeletDown", fingerprint="2", cluster="prod"),
            alert("Over", fingerprint="3", ends=60, node="a"),
        ]
        assert (await doctor.post("/v1/alertmanager", group(*told)))[0] == 200

    async def listed(output: Listing = Listing.JSON, **given: Any) -> str:
        asked: dict[str, Any] = {"node": "", "classes": (), "everything": False}
        asked = {**asked, "unresolved": False, **given}
        await list_events(str(plane.kubeconfig), None, output=output, **asked)
        return capsys.readouterr().out

    table = await listed(Listing.TABLE)
    assert "DiskFails" in table and "KubeletDown" in table and "Over" not in table
    everything = json.loads(await listed(everything=True))
    assert [each["what"] for each in everything][-1] == "Over"
    lost = json.loads(await listed(unresolved=True))
    assert [(each["what"], each["unresolved"].split(":")[0]) for each in lost] == [
        ("KubeletDown", "NoHost")
    ]
    assert [each["what"] for each in json.loads(await listed(node="a"))] == ["DiskFails"]
    assert "no open events" in await listed(Listing.TABLE, classes=["reboot"])
    with pytest.raises(Refusal, match="there is no class Party"):
        await listed(classes=["Party"])


async def test_an_agent_tells_of_its_own_machine_alone(kube: Kube, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", "host-doctor", sans=["127.0.0.1"])
    agent = authority.issue("agent", "kubenode:agent:a", ["kubenode:agents"])
    files = PemFiles(server.cert_file, server.key_file, authority.cert_file)
    await make_node(kube, "a", provider=f"{VMSS}1")
    await make_node(kube, "b", provider=f"{VMSS}2")
    context = ssl.create_default_context(cafile=str(authority.cert_file))
    context.load_cert_chain(agent.cert_file, agent.key_file)
    settings = HostDoctorSettings(0, files=files)
    async with (
        doctoring(kube, tmp_path, settings=settings) as doctor,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
    ):
        await until(lambda: len(doctor.desk.index) == 2, 60)

        async def tell(name: str, body: object) -> int:
            url = f"https://127.0.0.1:{doctor.server.port}/v1/{name}"
            async with session.post(url, json=body) as answer:
                return answer.status

        told = {"transport": "azure_imds", "payload": REBOOT}
        assert await tell("hosts/b/events", told) == 403
        assert await tell("alertmanager", group()) == 403
        assert await tell("hosts/a/events", {"transport": "aws_sqs", "payload": {}}) == 400
        assert await tell("hosts/a/events", told) == 200
        (event,) = await stored(kube)
        assert (event.spec.node.name, event.status.phase) == ("a", "Scheduled")
        assert await tell("hosts/a/events", {**told, "payload": {**REBOOT, "Events": []}}) == 200
        (event,) = await stored(kube)
        assert event.status.phase == "Cancelled"
        codes = {await tell("hosts/a/events", told) for _ in range(60)}
        assert codes == {200, 429}
