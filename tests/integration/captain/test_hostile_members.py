"""Members that answer badly: each has its reason, and the others go on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command import kubenode
from support.embedded import EmbeddedPlane
from support.programs import KUBENODE, Program
from support.simulated_members import MemberConduct, MemberSite
from support.waiting import until

from kubenode.cli.member_app import MEMBERS_NAMESPACE

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
PATIENCE = 120.0
MEMBERS = "/apis/kubenode.io/v1alpha1/memberclusters"
REASONS = {
    MemberConduct.WELL: "Connected",
    MemberConduct.SILENT: "Timeout",
    MemberConduct.LARGE: "ServerError",
    MemberConduct.GARBLED: "ServerError",
    MemberConduct.DEEP: "ServerError",
    MemberConduct.BOMB: "ServerError",
    MemberConduct.REDIRECT: "ServerError",
    MemberConduct.UNAVAILABLE: "ServerError",
    MemberConduct.LYING: "ServerError",
}
PEAK_MIB = 220
"""Most memory of the program: an unpacked bomb alone would have 200 MiB more."""


@pytest.fixture
def site() -> Iterator[MemberSite]:
    with MemberSite() as site:
        yield site


def reasons(plane: EmbeddedPlane) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for member in plane.get(MEMBERS)["items"]:
        conditions: list[dict[str, Any]] = member.get("status", {}).get("conditions", [])
        for condition in conditions:
            if condition["type"] == "Reachable":
                reasons[member["metadata"]["name"]] = condition["reason"]
                assert len(condition["message"]) < 1000
    return reasons


def peak_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def test_every_bad_answer_has_a_reason_and_concerns_its_member_alone(
    site: MemberSite, tmp_path: Path
) -> None:
    assert REASONS.keys() == set(MemberConduct)
    site.conduct = {conduct.value: conduct for conduct in MemberConduct}
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        plane.api.load(site.objects(site.conduct, MEMBERS_NAMESPACE))
        words = ("--kubeconfig", str(plane.kubeconfig), "--health-port", "0", "--no-lease")
        program = Program("captain", ("run", "captain", *words), tmp_path, KUBENODE)
        program.start()
        try:
            wanted = {conduct.value: reason for conduct, reason in REASONS.items()}
            until(
                lambda: reasons(plane) == wanted,
                "every member has its reason",
                PATIENCE,
                lambda: f"{reasons(plane)}\n{program.log[-3000:]}",
            )
            assert peak_mib(program.pid) < PEAK_MIB
        finally:
            program.stop()
    assert site.escapes == []
