"""Kinds that the rule registry and its webhook keep: revisions, secrets, webhook configurations."""

import base64
from pathlib import Path
from typing import Any

import pytest
from support.contract_api import JSON_PATCH, ContractApi
from support.pki import Authority

pytestmark = pytest.mark.integration

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def a_revision(name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name, "labels": {"kubenode.io/keeps": "good-rule"}},
        "revision": 3,
        "data": {"spec": {"mode": "Off", "priority": 5}},
        **more,
    }


def a_hook(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "one.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/x"},
                "rules": [
                    {
                        "apiGroups": ["contract.example.com"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["nothings"],
                    }
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Ignore",
            }
        ],
    }


def revisions(api: ContractApi) -> str:
    return f"/apis/apps/v1/namespaces/{api.ns}/controllerrevisions"


async def test_a_revision_keeps_its_data_as_it_was_given(api: ContractApi) -> None:
    made = await api.made(revisions(api), a_revision("r-1"))
    assert (made.body["revision"], made.body["data"]) == (3, a_revision("r-1")["data"])
    found = await api.get(f"{revisions(api)}?labelSelector=kubenode.io/keeps%3Dgood-rule")
    assert found.names == ["r-1"]
    assert found.body["items"][0]["data"] == a_revision("r-1")["data"]


async def test_the_data_of_a_revision_cannot_change(api: ContractApi) -> None:
    await api.made(revisions(api), a_revision("r-1"))
    changed = await api.patch(f"{revisions(api)}/r-1", {"data": {"spec": {"mode": "Enforce"}}})
    assert changed.code == 422
    assert changed.body["details"]["causes"][0]["field"] == "data"


@pytest.mark.parametrize("wrong", [{"data": None}, {"revision": -1}])
async def test_a_revision_without_data_or_order_is_refused(
    api: ContractApi, wrong: dict[str, Any]
) -> None:
    reply = await api.post(revisions(api), a_revision("r-1", **wrong))
    assert (reply.code, reply.reason) == (422, "Invalid")


async def test_a_revision_may_belong_to_a_cluster_scoped_owner(api: ContractApi) -> None:
    """The owner of a namespaced object may have no namespace, and takes it along when it goes."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"owner-{api.ns}"}}
    owner = await api.made("/api/v1/nodes", node)
    reference = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": f"owner-{api.ns}",
        "uid": owner.meta["uid"],
    }
    body = a_revision("owned")
    body["metadata"]["ownerReferences"] = [reference]
    await api.made(revisions(api), body)
    await api.delete(f"/api/v1/nodes/owner-{api.ns}")
    await api.until(f"{revisions(api)}/owned", lambda reply: reply.code == 404)


async def test_a_secret_is_written_by_whoever_read_it_last(api: ContractApi) -> None:
    secrets = f"/api/v1/namespaces/{api.ns}/secrets"
    made = await api.made(
        secrets, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "empty"}}
    )
    value = base64.b64encode(b"one").decode()
    version = made.meta["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"tls.crt": value}}
    first = await api.patch(f"{secrets}/empty", patch)
    assert (first.code, first.body["data"]) == (200, {"tls.crt": value})
    second = await api.patch(f"{secrets}/empty", patch | {"data": {"tls.crt": "eA=="}})
    assert (second.code, second.reason) == (409, "Conflict")


async def test_the_ca_bundle_of_one_webhook_is_set_by_a_tested_patch(
    api: ContractApi, tmp_path: Path
) -> None:
    name = f"hook-{api.ns}"
    await api.made(HOOKS, a_hook(name))
    bundle = base64.b64encode(Authority(tmp_path).cert_file.read_bytes()).decode()
    patch: list[dict[str, str]] = [
        {"op": "test", "path": "/webhooks/0/name", "value": "one.example.com"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle},
    ]
    reply = await api.patch(f"{HOOKS}/{name}", patch, JSON_PATCH)
    hook = reply.body["webhooks"][0]
    assert (reply.code, hook["clientConfig"]["caBundle"]) == (200, bundle)
    assert hook["clientConfig"]["url"] == "https://127.0.0.1:1/x"
    patch[0]["value"] = "another.example.com"
    assert (await api.patch(f"{HOOKS}/{name}", patch, JSON_PATCH)).code == 422
    await api.delete(f"{HOOKS}/{name}")
