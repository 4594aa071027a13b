"""Deleting: preconditions, finalizers, grace, collections, owners and namespaces."""

import pytest
from support.contract_api import ContractApi, Obj, a_configmap, a_foo, a_pod

pytestmark = pytest.mark.integration
BACKGROUND = {"propagationPolicy": "Background"}


def gone(code: int) -> bool:
    return code == 404


async def test_delete_answers_with_a_status_that_names_it(api: ContractApi) -> None:
    made = await api.made(api.configmaps, a_configmap("c"))
    reply = await api.delete(f"{api.configmaps}/c")
    assert (reply.code, reply.body["status"]) == (200, "Success")
    assert reply.body["details"]["uid"] == made.meta["uid"]
    assert (await api.get(f"{api.configmaps}/c")).code == 404
    assert (await api.delete(f"{api.configmaps}/c")).code == 404


@pytest.mark.parametrize(
    "preconditions", [{"uid": "00000000-0000-0000-0000-000000000000"}, {"resourceVersion": "1"}]
)
async def test_wrong_precondition_conflicts(api: ContractApi, preconditions: Obj) -> None:
    await api.made(api.foos, a_foo("x"))
    reply = await api.delete(f"{api.foos}/x", {"preconditions": preconditions})
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert (await api.get(f"{api.foos}/x")).code == 200


async def test_right_preconditions_delete(api: ContractApi) -> None:
    meta = (await api.made(api.foos, a_foo("x"))).meta
    preconditions = {key: meta[key] for key in ("uid", "resourceVersion")}
    assert (await api.delete(f"{api.foos}/x", {"preconditions": preconditions})).code == 200
    assert (await api.get(f"{api.foos}/x")).code == 404


async def test_dry_run_deletes_nothing(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("c"))
    assert (await api.delete(f"{api.configmaps}/c?dryRun=All")).code == 200
    assert (await api.delete(f"{api.configmaps}/c", {"dryRun": ["All"]})).code == 200
    assert (await api.get(f"{api.configmaps}/c")).code == 200


async def test_finalizer_holds_the_object_until_it_is_taken_off(api: ContractApi) -> None:
    path = f"{api.configmaps}/c"
    await api.made(api.configmaps, a_configmap("c", finalizers=["a.b/c"]))
    assert (await api.delete(path)).code == 200
    held = await api.get(path)
    assert held.meta["deletionTimestamp"]
    assert held.meta["deletionGracePeriodSeconds"] == 0
    assert (await api.delete(path)).code == 200
    assert (await api.get(path)).rv == held.rv  # a second delete changes nothing
    patched = await api.patch(path, {"data": {"a": "1"}})
    assert patched.code == 200
    assert patched.meta["deletionTimestamp"] == held.meta["deletionTimestamp"]
    added = await api.patch(path, {"metadata": {"finalizers": ["a.b/c", "a.b/d"]}})
    assert (added.code, added.reason) == (422, "Invalid")
    assert (await api.patch(path, {"metadata": {"finalizers": None}})).code == 200
    assert (await api.get(path)).code == 404


async def test_bound_pod_is_given_its_grace_and_outlives_it(api: ContractApi) -> None:
    await api.made(api.pods, a_pod(name="p"))
    path = f"{api.pods}/p"
    reply = await api.delete(path)
    assert reply.code == 200
    assert reply.meta["deletionGracePeriodSeconds"] == 30
    patched = await api.patch(f"{path}/status", {"status": {"phase": "Running"}})
    assert patched.meta["deletionTimestamp"] == reply.meta["deletionTimestamp"]
    longer = await api.delete(path, {"gracePeriodSeconds": 60})
    assert longer.meta["deletionGracePeriodSeconds"] == 30
    shorter = await api.delete(path, {"gracePeriodSeconds": 5})
    assert shorter.meta["deletionGracePeriodSeconds"] == 5
    assert (await api.delete(path, {"gracePeriodSeconds": 0})).code == 200
    assert (await api.get(path)).code == 404


@pytest.mark.parametrize("phase", ["Pending without a node", "Succeeded", "Failed"])
async def test_pod_that_runs_nothing_goes_at_once(api: ContractApi, phase: str) -> None:
    unbound = phase.startswith("Pending")
    await api.made(api.pods, a_pod(name="p", node="" if unbound else "n1"))
    if not unbound:
        await api.patch(f"{api.pods}/p/status", {"status": {"phase": phase}})
    assert (await api.delete(f"{api.pods}/p")).code == 200
    assert (await api.get(f"{api.pods}/p")).code == 404


async def test_collection_is_deleted_by_selector(api: ContractApi) -> None:
    for name, label in (("a", "1"), ("b", "1"), ("c", "2")):
        await api.made(api.foos, a_foo(name, {"labels": {"l": label}}))
    reply = await api.delete(f"{api.foos}?labelSelector=l%3D1")
    assert reply.code == 200
    assert (await api.get(api.foos)).names == ["c"]


# ---- owners


async def owned(api: ContractApi, name: str, *owners: Obj) -> None:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": o["name"], "uid": o["uid"]}
        for o in owners
    ]
    await api.made(api.configmaps, a_configmap(name, ownerReferences=references))


async def test_dependents_go_with_their_last_owner(api: ContractApi) -> None:
    one = (await api.made(api.configmaps, a_configmap("one"))).meta
    two = (await api.made(api.configmaps, a_configmap("two"))).meta
    await owned(api, "child", one)
    await owned(api, "shared", one, two)
    await api.delete(f"{api.configmaps}/one", BACKGROUND)
    await api.until(f"{api.configmaps}/child", lambda reply: reply.code == 404)
    shared = await api.until(
        f"{api.configmaps}/shared",
        lambda reply: len(reply.meta.get("ownerReferences", ())) == 1,
    )
    assert shared.meta["ownerReferences"][0]["name"] == "two"
    await api.delete(f"{api.configmaps}/two", BACKGROUND)
    await api.until(f"{api.configmaps}/shared", lambda reply: reply.code == 404)


async def test_grandchildren_go_too(api: ContractApi) -> None:
    one = (await api.made(api.configmaps, a_configmap("one"))).meta
    await owned(api, "child", one)
    await owned(api, "grandchild", (await api.get(f"{api.configmaps}/child")).meta)
    await api.delete(f"{api.configmaps}/one", BACKGROUND)
    await api.until(f"{api.configmaps}/grandchild", lambda reply: reply.code == 404)


async def test_child_of_an_owner_that_never_was_goes(api: ContractApi) -> None:
    await owned(api, "child", {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"})
    await api.until(f"{api.configmaps}/child", lambda reply: reply.code == 404)


async def test_orphans_stay_and_forget_their_owner(api: ContractApi) -> None:
    one = (await api.made(api.configmaps, a_configmap("one"))).meta
    await owned(api, "child", one)
    await api.delete(f"{api.configmaps}/one", {"propagationPolicy": "Orphan"})
    await api.until(f"{api.configmaps}/one", lambda reply: reply.code == 404)
    child = await api.until(
        f"{api.configmaps}/child", lambda reply: "ownerReferences" not in reply.meta
    )
    assert child.code == 200


async def test_foreground_deletion_keeps_the_owner_until_its_dependents_are_gone(
    api: ContractApi,
) -> None:
    one = (await api.made(api.configmaps, a_configmap("one"))).meta
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": one["uid"]}
    owners = [{**owner, "blockOwnerDeletion": True}]
    held = a_configmap("held", finalizers=["a.b/c"], ownerReferences=owners)
    await api.made(api.configmaps, held)
    await owned(api, "free", one)
    reply = await api.delete(f"{api.configmaps}/one", {"propagationPolicy": "Foreground"})
    assert (reply.code, reply.meta["finalizers"]) == (200, ["foregroundDeletion"])
    await api.until(f"{api.configmaps}/free", lambda reply: reply.code == 404)
    await api.until(f"{api.configmaps}/held", lambda reply: "deletionTimestamp" in reply.meta)
    assert (await api.get(f"{api.configmaps}/one")).code == 200
    await api.patch(f"{api.configmaps}/held", {"metadata": {"finalizers": None}})
    await api.until(f"{api.configmaps}/one", lambda reply: reply.code == 404)


async def test_foreground_deletion_of_an_owner_of_nothing_ends(api: ContractApi) -> None:
    await api.made(api.configmaps, a_configmap("one"))
    await api.delete(f"{api.configmaps}/one?propagationPolicy=Foreground")
    await api.until(f"{api.configmaps}/one", lambda reply: reply.code == 404)


async def test_unknown_propagation_policy_is_refused(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    reply = await api.delete(f"{api.foos}/x", {"propagationPolicy": "Sideways"})
    assert (reply.code, reply.reason) == (422, "Invalid")


# ---- namespaces


async def test_namespace_goes_with_its_content(api: ContractApi) -> None:
    path = f"/api/v1/namespaces/{api.ns}"
    await api.made(api.foos, a_foo("x"))
    await api.made(api.configmaps, a_configmap("held", finalizers=["a.b/c"]))
    reply = await api.delete(path)
    assert reply.code == 200
    assert (await api.get(path)).status["phase"] == "Terminating"
    refused = await api.post(api.configmaps, a_configmap("late"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert "NamespaceTerminating" in refused.causes
    await api.until(f"{api.foos}/x", lambda reply: reply.code == 404)
    await api.until(f"{api.configmaps}/held", lambda r: "deletionTimestamp" in r.meta)
    assert (await api.get(path)).code == 200
    await api.patch(f"{api.configmaps}/held", {"metadata": {"finalizers": None}})
    await api.until(path, lambda reply: reply.code == 404)


async def test_default_namespace_stays(api: ContractApi) -> None:
    reply = await api.delete("/api/v1/namespaces/default")
    assert (reply.code, reply.reason) == (403, "Forbidden")
