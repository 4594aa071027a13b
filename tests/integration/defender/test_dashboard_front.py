"""The Fleet page's first glance, read from an API server: leaders, agents, dry runs, conditions."""

import re

import aiohttp
import pytest
from support.dashboard_running import LINK, api_server, dashboard_over
from support.dashboard_world import (
    JOBS,
    POLICIES,
    RULES,
    Object,
    a_collect_step,
    a_job,
    a_node,
    a_rule,
    condition,
    now,
    put,
    stamp,
)
from support.running import until

from defender.dashboard.views.attention import first_glance
from defender.server.excerpts import MOST_JOBS
from kubenode.api.v1alpha1 import Ask, Disruption, Operation, default_policy
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube

pytestmark = pytest.mark.integration


async def make_lease(kube: Kube, namespace: str, name: str) -> None:
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": "x", "renewTime": stamp().replace("Z", ".000000Z")},
    }
    await kube.create(paths.leases(namespace), body)


def a_record(node: Object) -> Object:
    """Return the record of a node with a lasting dry run of rule kernel-deadlock."""
    last = {"at": stamp(50), "firstTrue": stamp(60), "rung": "reboot", "said": "would have"}
    run = {
        "remedier": "kernel-deadlock", "faultClass": "kernel_deadlock", "count": 1,
        "first": stamp(50), "recent": [last],
    }  # fmt: skip
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRecord",
        "metadata": {"name": node["metadata"]["name"]},
        "spec": {"nodeUID": node["metadata"]["uid"], "dryRuns": [run]},
    }


async def test_first_glance_names_missing_leaders_and_agents_until_their_leases_are_renewed() -> (
    None
):
    async with api_server() as (api, kube):
        await put(kube, RULES, a_rule("kernel-deadlock"))
        for namespace in ("kubenode-system", "kubenode-agents"):
            await kube.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name in ("n1", "n2"):
            await kube.create(paths.nodes(), a_node(name))
        await make_lease(kube, "kubenode-agents", "n2")
        async with dashboard_over(api, kube, leases=True) as running:
            board = running.dashboard.board
            await until(lambda: board.scene().programs.agents is not None, 20, "leases are read")
            titles = [row.title for row in first_glance(board.scene()).rows]
            assert titles == [
                "The Remedy operator has no leader",
                "1 of 2 nodes have an agent; 1 rule needs one",
            ]
            await make_lease(kube, "kubenode-system", "kubenode-all")
            assert board.leases is not None
            await board.leases.read()
            titles = [row.title for row in first_glance(board.scene()).rows]
            assert titles == ["1 of 2 nodes have an agent; 1 rule needs one"]


async def test_first_glance_follows_conditions_rules_and_dry_runs() -> None:
    async with api_server() as (api, kube):
        made = await kube.create(paths.nodes(), a_node("n1"))
        async with dashboard_over(api, kube) as running:
            board = running.dashboard.board

            def sentence() -> str:
                return first_glance(board.scene()).headline.sentence

            assert sentence().startswith("All is well")
            bad = [condition("KernelDeadlock", "True", "DockerHung", "", 60.0)]
            patch = {"status": {"conditions": bad}}
            await kube.patch(paths.node("n1", "status"), patch, STRATEGIC_PATCH)
            await put(kube, RULES, a_rule("kernel-deadlock", "DryRun"))
            faulty = "1 of 1 nodes has a fault: KernelDeadlock on 1."
            await until(lambda: sentence() == faulty, 20, "the rule reads the condition")
            await put(kube, paths.custom("noderecords"), a_record(made))

            def activities() -> list[str]:
                return [text for _, text in first_glance(board.scene()).headline.activities]

            would = "1 node would be repaired, but its rules are in DryRun"
            await until(lambda: activities() == [would], 20, "the dry run is shown")
            await kube.patch(f"{RULES}/kernel-deadlock", {"spec": {"mode": "Off"}})
            await until(lambda: sentence().startswith("All is well"), 20, "the rule is off")


async def test_verdict_of_a_dry_run_counts_the_lasting_dry_runs_of_other_nodes() -> None:
    async with api_server() as (api, kube):
        await put(kube, POLICIES, default_policy().to_dict())
        await put(kube, RULES, a_rule("kernel-deadlock", "DryRun"))
        for number in range(1, 8):
            made = await kube.create(paths.nodes(), a_node(f"n{number}"))
            if number < 7:
                await put(kube, paths.custom("noderecords"), a_record(made))
        async with dashboard_over(api, kube) as running:
            shadows = running.defender.shadows
            await until(lambda: len(shadows.faults(now())) == 6, 20, "the records are read")
            ask = Ask(
                operation=Operation.REPAIR, class_=Disruption.HOST, node="n7", dry_run=True,
                holder=Holder(kind="NodeRecord", name="n7", uid="u"),
            )  # fmt: skip
            verdict = await running.defender.ask(ask)
            assert "the breaker would be open: 7 of 7 nodes" in verdict.message
            await kube.patch(f"{RULES}/kernel-deadlock", {"spec": {"mode": "Enforce"}})
            await until(lambda: "n1" not in shadows.faults(now()), 20, "the rule acts")


def browser() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def test_page_of_a_node_shows_what_its_latest_jobs_collected_as_text() -> None:
    evil = "<script>alert(1)</script> {{ 7 * 7 }} \u202e"
    async with api_server() as (api, kube), browser() as session:
        await kube.create(paths.nodes(), a_node("n1"))
        for number in range(MOST_JOBS + 1):
            collected = {**a_collect_step(f"oops {number}\n{evil}"), "finishedAt": stamp(-number)}
            body = a_job("n1", "Succeeded", name=f"n1-{number}", steps=[collected])
            await put(kube, JOBS, body)
        await put(kube, JOBS, a_job("n2", "Succeeded", steps=[a_collect_step("of another node")]))
        async with dashboard_over(api, kube) as running:
            data = {"link": LINK, "to": "/nodes/n1"}
            async with session.post(f"{running.url}/login", data=data) as answer:
                text = await answer.text()
    blocks = re.findall(r'<pre class="evidence">(.*?)</pre>', text, re.DOTALL)
    shown = "&lt;script&gt;alert(1)&lt;/script&gt; {{ 7 * 7 }} \ufffd"
    assert blocks == [f"oops {number}\n{shown}" for number in (3, 2, 1)]
    assert "of another node" not in text
