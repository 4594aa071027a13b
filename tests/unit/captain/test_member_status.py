"""The status of a member after each outcome of a probe, and when the next one is due."""

import ssl
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from captain.members.cluster import MemberUnreachable
from captain.members.controller import select_changed
from captain.members.probe import (
    CountedList,
    CountMetadata,
    MemberProbeResult,
    ResourceRule,
    ServedKind,
    clean_version,
    count_items,
    find_kinds,
    find_missing_rights,
)
from captain.members.reach import REMEDIES, explain, find_reason
from captain.members.status import (
    CONTACT_PERIOD,
    MAX_MACHINES,
    ProbeOutcome,
    build_status,
    find_change,
    seconds_to_probe,
)
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import PAYLOAD_KINDS, MemberReason
from kubenode.cli.member_identity import build_rules
from kubenode.runtime.kube.errors import (
    Forbidden,
    KubeError,
    ServerUnreachable,
    TooManyRequests,
    Unauthorized,
    Undecodable,
)

NOW = datetime(2026, 11, 29, 1, 0, tzinfo=UTC)
OBSERVED = MemberProbeResult("v1.34.2", PAYLOAD_KINDS, 5120)


def member(**status: Any) -> MemberCluster:
    return MemberCluster.model_validate(
        {
            "metadata": {"name": "sh-03", "generation": 4, "uid": "u"},
            "spec": {"kubeconfigRef": "sh-03"},
            "status": status,
        }
    )


def unreachable(reason: MemberReason) -> MemberUnreachable:
    return MemberUnreachable("sh-03", reason, "why")


def probed(before: MemberCluster, outcome: ProbeOutcome, now: datetime = NOW) -> MemberCluster:
    """The object after the status was patched."""
    change = find_change(before, outcome, now) or {}
    return member(**{**before.status.to_dict(), **change})


def conditions(cluster: MemberCluster) -> dict[str, tuple[str, str]]:
    return {c.type: (c.status, c.reason) for c in cluster.status.conditions}


def test_a_member_that_answers_is_connected_and_ready() -> None:
    after = probed(member(), OBSERVED)
    assert after.status.phase == "Connected" and after.status.machines == 5120
    assert after.status.last_contact == NOW and after.status.observed_generation == 4
    assert conditions(after) == {
        "Reachable": ("True", "Connected"),
        "Installed": ("True", "Installed"),
        "Ready": ("True", "Current"),
    }


READINESS = {
    MemberReason.PAUSED: ("Paused", None),
    MemberReason.SECRET_MISSING: ("Unreachable", "Stalled"),
    MemberReason.INVALID_KUBECONFIG: ("Unreachable", "Stalled"),
    MemberReason.UNTRUSTED_CERTIFICATE: ("Unreachable", "Stalled"),
    MemberReason.UNAUTHORIZED: ("Unreachable", "Stalled"),
    MemberReason.FORBIDDEN: ("Unreachable", "Stalled"),
    MemberReason.TIMEOUT: ("Unreachable", "Reconciling"),
    MemberReason.REFUSED: ("Unreachable", "Reconciling"),
    MemberReason.SERVER_ERROR: ("Unreachable", "Reconciling"),
}


def test_every_reason_has_a_phase_and_a_readiness() -> None:
    assert {*READINESS, MemberReason.CONNECTED} == set(MemberReason)


@pytest.mark.parametrize("reason", READINESS)
def test_an_unreachable_member_keeps_what_was_observed_last(reason: MemberReason) -> None:
    phase, progress = READINESS[reason]
    connected = probed(member(), OBSERVED)
    after = probed(connected, unreachable(reason), NOW + timedelta(minutes=9))
    assert after.status.phase == phase
    assert after.status.version == "v1.34.2" and after.status.machines == 5120
    assert after.status.last_contact == NOW
    found = conditions(after)
    assert found["Reachable"] == ("Unknown" if phase == "Paused" else "False", reason)
    assert found["Installed"] == ("True", "Installed")
    assert {"Stalled", "Reconciling"} & found.keys() == ({progress} if progress else set())
    assert found["Ready"][0] == ("True" if progress is None else "False")
    assert conditions(probed(after, OBSERVED)) == conditions(connected)


def test_missing_kinds_are_named_with_a_remedy() -> None:
    after = probed(member(), MemberProbeResult("v1", PAYLOAD_KINDS[:1], None))
    assert conditions(after)["Installed"] == ("False", "KindsMissing")
    [installed] = [c for c in after.status.conditions if c.type == "Installed"]
    assert "MachineComponentSet" in installed.message and "kubenode install" in installed.message
    assert after.status.machines is None and "Stalled" in conditions(after)


def test_missing_rights_are_an_unreachable_member() -> None:
    lacking = MemberProbeResult("v1", PAYLOAD_KINDS, 1, ("patch noderemediers",))
    after = probed(member(), lacking)
    assert after.status.phase == "Unreachable"
    [reach] = [c for c in after.status.conditions if c.type == "Reachable"]
    assert reach.reason == "Forbidden" and "patch noderemediers" in reach.message


def test_an_equal_outcome_writes_nothing_but_a_contact_now_and_then() -> None:
    before = probed(member(), OBSERVED)
    assert find_change(before, OBSERVED, NOW + CONTACT_PERIOD / 2) is None
    later = NOW + CONTACT_PERIOD
    assert find_change(before, OBSERVED, later) == {"lastContact": "2026-11-29T01:05:00.000Z"}
    gone = probed(before, unreachable(MemberReason.TIMEOUT))
    assert find_change(gone, unreachable(MemberReason.TIMEOUT), later) is None


def test_a_count_that_a_member_invents_is_bounded() -> None:
    status = build_status(member(), MemberProbeResult("v1", PAYLOAD_KINDS, 10**30), NOW)
    assert status["machines"] == MAX_MACHINES


@pytest.mark.parametrize(
    ("items", "remaining", "more", "count"),
    [(0, None, "", 0), (1, None, "", 1), (1, 41, "x", 42), (1, None, "x", None), (1, -9, "x", 1)],
)
def test_machines_are_counted_from_one_item(
    items: int, remaining: int | None, more: str, count: int | None
) -> None:
    page = CountedList([b"{}"] * items, CountMetadata(remaining, more))  # type: ignore[list-item]
    assert count_items(page) == count


def test_a_version_is_short_and_printable() -> None:
    assert clean_version("v1.34.2\n\x1b[31m" + "x" * 99) == "v1.34.2[31m" + "x" * 53


def test_kinds_are_those_that_the_member_serves() -> None:
    served = [ServedKind("noderemediers", "NodeRemedier"), ServedKind("nodes", "Node")]
    assert find_kinds(served) == ("NodeRemedier",)


def rule(raw: dict[str, Any]) -> ResourceRule:
    return ResourceRule(raw["verbs"], raw.get("apiGroups"), raw.get("resources"))


def test_the_role_of_an_import_lacks_no_right() -> None:
    rules = [rule(raw) for raw in build_rules()]
    assert find_missing_rights(rules, PAYLOAD_KINDS) == ()


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "patch", "update", "delete"])
def test_each_missing_verb_is_named(verb: str) -> None:
    raw = build_rules()[0]
    rules = [rule(raw | {"verbs": [each for each in raw["verbs"] if each != verb]})]
    assert find_missing_rights(rules, ["NodeRemedier"]) == (f"{verb} noderemediers",)


def test_a_right_on_some_names_is_no_right() -> None:
    named = rule(build_rules()[0])
    named.resource_names = ["a"]
    assert len(find_missing_rights([named], PAYLOAD_KINDS)) == 28


def test_an_administrator_lacks_no_right() -> None:
    assert find_missing_rights([ResourceRule(["*"], ["*"], ["*"])], PAYLOAD_KINDS) == ()


def caused(cause: BaseException) -> KubeError:
    error = ServerUnreachable("no answer")
    error.__cause__ = cause
    return error


KEY: Any = SimpleNamespace(host="m", port=443, ssl=True, is_ssl=True)
REASONS = [
    (Unauthorized(401), MemberReason.UNAUTHORIZED),
    (Forbidden(403), MemberReason.FORBIDDEN),
    (TooManyRequests(429), MemberReason.SERVER_ERROR),
    (KubeError(503), MemberReason.SERVER_ERROR),
    (Undecodable(200), MemberReason.SERVER_ERROR),
    (caused(TimeoutError()), MemberReason.TIMEOUT),
    (caused(aiohttp.ServerTimeoutError()), MemberReason.TIMEOUT),
    (caused(aiohttp.ConnectionTimeoutError()), MemberReason.TIMEOUT),
    (caused(aiohttp.ClientPayloadError()), MemberReason.SERVER_ERROR),
    (caused(ssl.CertificateError()), MemberReason.UNTRUSTED_CERTIFICATE),
    (
        caused(aiohttp.ClientConnectorCertificateError(KEY, ssl.CertificateError())),
        MemberReason.UNTRUSTED_CERTIFICATE,
    ),
    (caused(aiohttp.ClientConnectorError(KEY, OSError())), MemberReason.REFUSED),
    (caused(ConnectionResetError()), MemberReason.REFUSED),
]


@pytest.mark.parametrize(("error", "reason"), REASONS)
def test_every_error_has_a_reason_and_a_remedy(error: KubeError, reason: MemberReason) -> None:
    assert find_reason(error) is reason
    assert REMEDIES[reason] in explain(error)


def test_a_long_text_of_a_member_is_cut() -> None:
    assert len(explain(KubeError(500, "", "x" * 10**6))) < 1000


def test_probes_of_many_members_are_spread_over_the_interval() -> None:
    start = NOW.timestamp()
    delays = sorted(seconds_to_probe(f"m-{i}", start, 60.0) for i in range(300))
    assert delays[0] >= 30.0 and delays[-1] < 90.0
    within = sorted(delay % 60 for delay in delays)
    assert max(b - a for a, b in pairwise(within)) < 2.0


def test_a_member_is_probed_once_per_interval() -> None:
    now = NOW.timestamp()
    for _ in range(5):
        delay = seconds_to_probe("sh-03", now, 60.0)
        now += delay
    assert seconds_to_probe("sh-03", now, 60.0) == pytest.approx(60.0)


def test_only_a_change_of_the_spec_wakes_the_prober() -> None:
    before, same = member(), probed(member(), OBSERVED)
    other = member()
    other.metadata.generation = 5
    assert select_changed("sh-03", before, same) == ()
    assert select_changed("sh-03", before, other) == ("sh-03",)
    assert select_changed("sh-03", None, before) == ("sh-03",)
    assert select_changed("sh-03", before, None) == ("sh-03",)
