"""Members on real API servers: import, probes, rotation, a cut network, revoked rights, removal."""

import asyncio
import base64
import json
from pathlib import Path

import pytest
from support.chart_rights import ACCOUNT_GROUPS, account
from support.machine_world import a_machine
from support.member_world import PATIENCE, MemberWorld
from support.rights import Question, wrong
from support.slow_proxy import slow_proxy
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
NEVER = 3600.0
"""Interval of probes that only a change of the Secret can cut short."""
SOON = 2.0
ROLE = "kubenode-captain-member"
OURS = "kubenode.io"
MAY: list[Question] = [
    ("list", OURS, "memberclusters", "", ""),
    ("watch", OURS, "memberclusters", "", ""),
    ("patch", OURS, "memberclusters/status", "", "m"),
    ("list", "", "secrets", "kubenode-members", ""),
    ("update", "coordination.k8s.io", "leases", "kubenode-system", "kubenode-captain"),
]
MAY_NOT: list[Question] = [
    ("list", "", "secrets", "", ""),
    ("get", "", "secrets", "kubenode-system", "x"),
    ("list", "", "secrets", "kubenode-system", ""),
    ("create", "", "secrets", "kubenode-members", ""),
    ("patch", "", "secrets", "kubenode-members", "x"),
    ("create", OURS, "memberclusters", "", ""),
    ("patch", OURS, "memberclusters", "", "m"),
    ("patch", OURS, "noderemediers", "", "m"),
    ("create", OURS, "machinecomponents", "", ""),
    ("update", "coordination.k8s.io", "leases", "kubenode-system", "kubenode-remedy"),
    ("create", "", "pods", "kubenode-system", ""),
    ("create", "", "serviceaccounts/token", "kubenode-system", "x"),
    ("get", "", "nodes", "", "n"),
]


def test_an_imported_member_is_connected_and_removed_again(
    world: MemberWorld, tmp_path: Path
) -> None:
    machines = {"apiVersion": "v1", "kind": "List", "items": [a_machine(f"m-{i}") for i in "abc"]}
    world.member.kubectl("create", "-f", "-", stdin=json.dumps(machines))
    planned = world.import_member("east", "--label", "stage=test", "--dry-run")
    assert "kind: ClusterRole" in planned and "kubeconfig:" not in planned
    assert world.command("list").stdout.startswith("no MemberClusters")
    assert "machines: 3" in world.import_member("east", "--label", "stage=test")
    with world.running(tmp_path, NEVER):
        assert world.wait_for("east", "Connected") == ""
        status = world.status("east")
        conditions = {c["type"]: c["status"] for c in status["conditions"]}
        assert conditions == {"Reachable": "True", "Installed": "True", "Ready": "True"}
        assert (status["phase"], status["machines"]) == ("Connected", 3)
        assert status["version"].startswith("v1.") and status["lastContact"]
        assert status["credentialsExpireAt"] > status["lastContact"]
        listed = world.command("list", "-o", "wide").stdout
        assert "stage=test" in listed and "Connected" in listed
        access = ("--member-kubeconfig", str(world.member.kubeconfig))
        refused = world.command("remove", "east", *access)
        assert refused.returncode == 2 and world.status("east")
        removed = world.command("remove", "east", *access, "--yes")
        assert removed.returncode == 0, removed.stderr
    assert world.command("list").stdout.startswith("no MemberClusters")
    for kind in ("clusterrole", "clusterrolebinding", "serviceaccount"):
        names = ("get", kind, ROLE, "-n", "kubenode-system")
        assert world.member.kubectl(*names, check=False).returncode == 1
    world.member.kubectl("delete", "machines", "--all")


def test_rotated_credentials_are_used_without_waiting_for_the_next_probe(
    world: MemberWorld, tmp_path: Path
) -> None:
    world.import_member("east", "--label", "stage=test")
    with world.running(tmp_path, NEVER):
        world.wait_for("east", "Connected")
        config = json.loads(world.kubeconfig("east"))
        config["users"][0]["user"]["token"] = "revoked"
        world.store("east", json.dumps(config).encode())
        assert "kubenode member import" in world.wait_for("east", "Unauthorized")
        world.captain.kubectl(
            "label", "-n", "kubenode-members", "secret/east", "kubenode.io/imported=true"
        )
        world.captain.kubectl(
            "label",
            "--overwrite",
            "memberclusters/east",
            "kubenode.io/imported=true",
            "stage=production",
        )
        world.import_member("east")
        world.wait_for("east", "Connected")
    labels = world.captain.get("/apis/kubenode.io/v1alpha1/memberclusters/east")["metadata"]
    assert labels["labels"]["stage"] == "production", "an import keeps the labels of a member"


async def test_a_cut_network_concerns_one_member_alone(world: MemberWorld, tmp_path: Path) -> None:
    world.import_member("near")
    async with slow_proxy(world.member.server) as proxy:
        server = proxy.url.replace("http://", "https://")
        await asyncio.to_thread(world.import_member, "far", "--member-server", server)
        with world.running(tmp_path, SOON):
            await asyncio.to_thread(world.wait_for, "near", "Connected")
            await asyncio.to_thread(world.wait_for, "far", "Connected")
            proxy.silent = True
            await asyncio.to_thread(world.wait_for, "far", "Timeout")
            status = world.status("far")
            assert status["phase"] == "Unreachable" and status["version"], "the last is shown"
            assert world.reach("near")[0] == "Connected"
            proxy.silent = False
            await asyncio.to_thread(world.wait_for, "far", "Connected")


def test_revoked_rights_are_named_and_a_new_import_restores_them(
    world: MemberWorld, tmp_path: Path
) -> None:
    world.import_member("east")
    with world.running(tmp_path, SOON):
        world.wait_for("east", "Connected")
        verbs = [{"op": "replace", "path": "/rules/0/verbs", "value": ["get", "list", "watch"]}]
        patch = ("patch", f"clusterrole/{ROLE}", "--type=json", "-p", json.dumps(verbs))
        world.member.kubectl(*patch)
        assert "patch noderemediers" in world.wait_for("east", "Forbidden")
        world.member.kubectl("delete", f"clusterrolebinding/{ROLE}")
        until(lambda: "machines" in world.reach("east")[1], "nothing is readable", PATIENCE)
        world.import_member("east")
        world.wait_for("east", "Connected")
        world.member.kubectl("delete", "-n", "kubenode-system", f"serviceaccount/{ROLE}")
        world.wait_for("east", "Unauthorized")


def test_a_hostile_kubeconfig_runs_and_reads_nothing_and_stops_no_other_member(
    world: MemberWorld, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    world.import_member("east")
    good = json.loads(world.kubeconfig("east"))
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}
    users = {
        "runs": {"exec": program | {"args": [str(trace)]}},
        "reads": {"tokenFile": "/etc/passwd"},
    }
    for name, user in users.items():
        world.store(name, json.dumps(good | {"users": [{"name": "east", "user": user}]}).encode())
    world.store("opaque", world.kubeconfig("east"), "Opaque")
    world.store("large", b"a" * 1_000_000)
    world.store("garbled", b"\x00: [")
    with world.running(tmp_path, SOON):
        world.wait_for("east", "Connected")
        assert "users[east].user.exec" in world.wait_for("runs", "InvalidKubeconfig")
        assert "users[east].user.tokenFile" in world.wait_for("reads", "InvalidKubeconfig")
        assert "kubenode.io/kubeconfig" in world.wait_for("opaque", "SecretMissing")
        assert "65536" in world.wait_for("large", "InvalidKubeconfig")
        world.wait_for("garbled", "InvalidKubeconfig")
        assert world.reach("east")[0] == "Connected"
    assert not trace.exists()


def test_captain_has_these_rights_in_its_own_cluster_and_no_others(world: MemberWorld) -> None:
    user = account("kubenode-captain")
    assert wrong(world.captain, user, MAY, MAY_NOT, ACCOUNT_GROUPS) == []


def test_renewal_replaces_an_unusable_token_and_keeps_address_and_labels(
    world: MemberWorld, tmp_path: Path
) -> None:
    world.import_member("east", "--label", "stage=test")
    access = ("--member-kubeconfig", world.member.kubeconfig)
    server = world.member.server.replace("127.0.0.1", "localhost")
    config = json.loads(world.kubeconfig("east"))
    config["users"][0]["user"]["token"] = "expired"
    config["clusters"][0]["cluster"] |= {"server": server, "tls-server-name": "127.0.0.1"}
    patch = {"data": {"kubeconfig": base64.b64encode(json.dumps(config).encode()).decode()}}
    words = ("patch", "-n", "kubenode-members", "secret/east", "-p", json.dumps(patch))
    world.captain.kubectl(*words)
    with world.running(tmp_path, NEVER):
        assert "kubenode member renew" in world.wait_for("east", "Unauthorized")
        for _ in range(2):
            renewed = world.command("renew", "east", *access)
            assert renewed.returncode == 0, renewed.stderr
        world.wait_for("east", "Connected")
    stored = json.loads(world.kubeconfig("east"))["clusters"][0]["cluster"]
    assert (stored["server"], stored["tls-server-name"]) == (server, "127.0.0.1")
    metadata = world.captain.get("/apis/kubenode.io/v1alpha1/memberclusters/east")["metadata"]
    assert metadata["labels"]["stage"] == "test"
    assert metadata["annotations"]["kubenode.io/token-renewed-by"]


def test_renewal_is_refused_without_an_import_and_stores_nothing(world: MemberWorld) -> None:
    access = ("--member-kubeconfig", world.member.kubeconfig)
    missing = world.command("renew", "east", *access)
    assert missing.returncode != 0 and "kubenode member import east" in missing.stderr
    world.import_member("east")
    before = world.kubeconfig("east")
    world.member.kubectl("delete", "-n", "kubenode-system", f"serviceaccount/{ROLE}")
    gone = world.command("renew", "east", *access)
    assert gone.returncode != 0 and "of the member does not exist" in gone.stderr
    assert world.kubeconfig("east") == before
    by_hand = ("label", "-n", "kubenode-members", "secret/east", "kubenode.io/imported-")
    world.captain.kubectl(*by_hand)
    foreign = world.command("renew", "east", *access)
    assert foreign.returncode != 0 and "renew its credentials yourself" in foreign.stderr
