"""Eviction is the only safe way off a node: the server itself spends the budget."""

import pytest
from support.contract_api import ContractApi, Obj, a_budget

pytestmark = pytest.mark.integration


async def settled(api: ContractApi, name: str, healthy: int, allowed: int) -> None:
    """The budget as a disruption controller leaves it, here ours or the real one."""
    if api.embedded:
        generation = (await api.get(f"{api.pdbs}/{name}")).meta["generation"]
        status = {
            "observedGeneration": generation,
            "currentHealthy": healthy,
            "desiredHealthy": healthy - allowed,
            "expectedPods": healthy,
            "disruptionsAllowed": allowed,
        }
        await api.patch(f"{api.pdbs}/{name}/status", {"status": status})
    await api.until(
        f"{api.pdbs}/{name}",
        lambda reply: (
            reply.status.get("disruptionsAllowed") == allowed
            and reply.status.get("currentHealthy") == healthy
        ),
    )


async def test_pod_without_a_budget_is_evicted(api: ContractApi) -> None:
    await api.running("free", {"app": "x"})
    reply = await api.evict("free")
    assert (reply.code, reply.body["status"]) == (201, "Success")
    assert (await api.get(f"{api.pods}/free")).meta["deletionTimestamp"]


async def test_second_eviction_finds_the_budget_spent(api: ContractApi) -> None:
    await api.made(api.pdbs, a_budget("one", {"matchLabels": {"app": "db"}}))
    await api.running("db-0", {"app": "db"})
    await api.running("db-1", {"app": "db"})
    await settled(api, "one", healthy=2, allowed=1)
    first = await api.evict("db-0")
    second = await api.evict("db-1")
    assert [first.code, second.code] == [201, 429]
    assert second.reason == "TooManyRequests"
    assert second.causes == ["DisruptionBudget"]
    assert "deletionTimestamp" not in (await api.get(f"{api.pods}/db-1")).meta
    budget = await api.get(f"{api.pdbs}/one")
    assert budget.status["disruptionsAllowed"] == 0
    assert list(budget.status.get("disruptedPods", {"db-0": ""})) in (["db-0"], [])


@pytest.mark.parametrize(
    ("selector", "guarded"),
    [
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["q"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["q"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({}, True),
        (None, False),
    ],
)
async def test_budget_guards_the_pods_it_selects(
    api: ContractApi, selector: Obj | None, guarded: bool
) -> None:
    await api.running("q-0", {"app": "q"})
    await api.made(api.pdbs, a_budget("b", selector, minAvailable=1))
    if guarded:
        await settled(api, "b", healthy=1, allowed=0)
    reply = await api.evict("q-0")
    assert reply.code == (429 if guarded else 201)


async def test_pending_pod_is_evicted_whatever_the_budget_says(api: ContractApi) -> None:
    await api.made(api.pdbs, a_budget("b", {"matchLabels": {"app": "q"}}))
    await api.running("q-0", {"app": "q"})
    await settled(api, "b", healthy=1, allowed=0)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "labels": {"app": "q"}}}
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "nowhere"}
    await api.made(api.pods, {**body, "spec": spec})
    assert (await api.evict("new")).code == 201
    assert (await api.evict("q-0")).code == 429


async def test_unready_pod_may_go_while_enough_others_are_healthy(api: ContractApi) -> None:
    await api.made(api.pdbs, a_budget("b", {"matchLabels": {"app": "q"}}))
    await api.running("well", {"app": "q"})
    await api.running("ill", {"app": "q"}, ready=False)
    await settled(api, "b", healthy=1, allowed=0)
    assert (await api.evict("well")).code == 429
    assert (await api.evict("ill")).code == 201


async def test_unready_pods_always_go_if_the_budget_says_so(api: ContractApi) -> None:
    more = {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    await api.made(api.pdbs, a_budget("b", {"matchLabels": {"app": "q"}}, **more))
    await api.running("ill", {"app": "q"}, ready=False)
    assert (await api.evict("ill")).code == 201


async def test_pod_with_two_budgets_is_not_evicted(api: ContractApi) -> None:
    for name in ("one", "two"):
        await api.made(api.pdbs, a_budget(name, {"matchLabels": {"app": "q"}}))
    await api.running("q-0", {"app": "q"})
    reply = await api.evict("q-0")
    assert reply.code == 500
    assert "more than one PodDisruptionBudget" in reply.body["message"]


async def test_eviction_obeys_its_delete_options(api: ContractApi) -> None:
    await api.running("p", {"app": "x"})
    wrong = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    assert (await api.evict("p", deleteOptions=wrong)).code == 409
    assert (await api.evict("p", deleteOptions={"dryRun": ["All"]})).code == 201
    assert "deletionTimestamp" not in (await api.get(f"{api.pods}/p")).meta
    reply = await api.evict("p", deleteOptions={"gracePeriodSeconds": 0})
    assert reply.code == 201
    assert (await api.get(f"{api.pods}/p")).code == 404


async def test_eviction_of_a_missing_pod_is_not_found(api: ContractApi) -> None:
    assert (await api.evict("none")).code == 404


async def test_budget_says_one_of_two_things(api: ContractApi) -> None:
    body = a_budget("b", {}, minAvailable=1, maxUnavailable=1)
    assert (await api.post(api.pdbs, body)).code == 422
