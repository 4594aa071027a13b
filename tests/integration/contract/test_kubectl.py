"""kubectl, as people use it: the same commands, the same effects on both servers."""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.contract_api import ContractApi, Obj, a_budget, a_configmap, a_foo, a_pod
from support.control_plane import kubectl_command, run_kubectl

Done = subprocess.CompletedProcess[str]
DRAIN_SECONDS = 60
PORTS = (("a", 80), ("b", 81), ("c", 82))


class Person:
    """Someone with a terminal; `ns` is the namespace of the context."""

    def __init__(self, api: ContractApi, home: Path) -> None:
        self.api = api
        self._home = home

    async def __call__(self, *args: str, given: Obj | None = None, check: bool = True) -> Done:
        return await asyncio.to_thread(
            run_kubectl,
            self.api.kubeconfig,
            "--namespace",
            self.api.ns,
            *args,
            stdin=json.dumps(given) if given is not None else None,
            check=check,
            home=self._home,
        )

    async def json(self, *args: str) -> Any:
        return json.loads((await self("get", *args, "-o", "json")).stdout)

    async def start(self, *args: str) -> asyncio.subprocess.Process:
        """A kubectl that runs beside the test, with both outputs in one pipe."""
        command, environment = kubectl_command(
            self.api.kubeconfig, "--namespace", self.api.ns, *args, home=self._home
        )
        return await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )


@pytest.fixture
async def kubectl(api: ContractApi, tmp_path: Path) -> AsyncIterator[Person]:
    yield Person(api, tmp_path)
    for name in (f"node-{api.ns}", f"other-{api.ns}"):
        await api.delete(f"/api/v1/nodes/{name}")


async def read_until(process: asyncio.subprocess.Process, text: str, seconds: float = 30) -> str:
    """What it printed up to the line with `text`; AssertionError if that line does not come."""
    assert process.stdout is not None
    seen = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while text not in seen and (line := await process.stdout.readline()):
                seen += line.decode()
    assert text in seen, seen
    return seen


async def end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.communicate()


async def a_node(api: ContractApi) -> str:
    """Ready, and without the taint that would bring an eviction of its own."""
    name = f"node-{api.ns}"
    await api.made(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    )
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "here"}
    reply = await api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})
    assert reply.code == 200, reply
    return name


async def a_running(api: ContractApi, name: str, node: str, app: str = "db") -> None:
    """A pod that needs no kubelet to end."""
    body = a_pod(node, name=name, labels={"app": app})
    body["spec"] |= {
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    await api.made(api.pods, body)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    reply = await api.patch(f"{api.pods}/{name}/status", {"status": status})
    assert reply.code == 200, reply


async def budget_allows(api: ContractApi, name: str, allowed: int, healthy: int) -> None:
    """As the disruption controller, which runs beside the real server and must have counted."""
    path = f"{api.pdbs}/{name}"
    if api.embedded:
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": 1,
            "expectedPods": healthy,
        }
        await api.patch(f"{path}/status", {"status": status})
    await api.until(path, lambda reply: reply.status.get("disruptionsAllowed") == allowed)


async def test_kubectl_gets_lists_and_single_objects(kubectl: Person) -> None:
    api = kubectl.api
    await api.made(api.configmaps, a_configmap("one", {"k": "v"}))
    lines = (await kubectl("get", "cm", "one")).stdout.splitlines()
    assert lines[0].split() == ["NAME", "DATA", "AGE"]
    assert lines[1].split()[:2] == ["one", "1"]
    assert (await kubectl.json("configmap/one"))["data"] == {"k": "v"}
    missing = await kubectl("get", "cm", "none", check=False)
    assert missing.returncode == 1
    assert 'configmaps "none" not found' in missing.stderr


async def test_kubectl_shows_the_columns_of_custom_resources(kubectl: Person) -> None:
    await kubectl.api.made(kubectl.api.foos, a_foo("x", a=3))
    lines = (await kubectl("get", "foos")).stdout.splitlines()
    assert lines[0].split() == ["NAME", "A", "READY", "AGE"]
    assert lines[1].split()[:2] == ["x", "3"]


async def test_kubectl_watches(kubectl: Person) -> None:
    api = kubectl.api
    await api.made(api.configmaps, a_configmap("w-one"))
    process = await kubectl.start("get", "configmaps", "--watch")
    try:
        await read_until(process, "w-one")
        await api.made(api.configmaps, a_configmap("w-two"))
        await read_until(process, "w-two")
    finally:
        await end(process)


async def test_kubectl_describes(kubectl: Person) -> None:
    node = await a_node(kubectl.api)
    text = (await kubectl("describe", "node", node)).stdout
    assert "KubeletReady" in text
    await kubectl.api.made(kubectl.api.foos, a_foo("x", a=3))
    assert "Kind:         Foo" in (await kubectl("describe", "foo", "x")).stdout


async def test_kubectl_applies_and_shows_what_would_change(kubectl: Person) -> None:
    created = await kubectl("apply", "-f", "-", given=a_configmap("c", {"a": "1", "b": "2"}))
    assert "created" in created.stdout
    again = await kubectl("apply", "-f", "-", given=a_configmap("c", {"a": "1", "b": "2"}))
    assert "unchanged" in again.stdout
    changed = a_configmap("c", {"a": "9"})
    difference = await kubectl("diff", "-f", "-", given=changed, check=False)
    assert (difference.returncode, '+  a: "9"' in difference.stdout) == (1, True)
    await kubectl("apply", "-f", "-", given=changed)
    assert (await kubectl.json("cm/c"))["data"] == {"a": "9"}, "b was applied and is no more"


async def test_kubectl_applies_custom_resources(kubectl: Person) -> None:
    await kubectl("apply", "-f", "-", given=a_foo("x", a=1, word="abc"))
    await kubectl("apply", "-f", "-", given=a_foo("x", a=2))
    spec = (await kubectl.json("foo/x"))["spec"]
    assert (spec["a"], "word" in spec) == (2, False)
    refused = await kubectl("apply", "-f", "-", given=a_foo("x", a=99), check=False)
    assert refused.returncode == 1
    assert "spec.a" in refused.stderr


async def test_kubectl_refuses_unknown_fields(kubectl: Person) -> None:
    refused = await kubectl("apply", "-f", "-", given=a_foo("x", zzz=1), check=False)
    assert refused.returncode == 1
    assert 'unknown field "spec.zzz"' in refused.stderr


async def test_kubectl_applies_on_the_server_side(kubectl: Person) -> None:
    given = a_configmap("c", {"a": "1"})
    await kubectl("apply", "--server-side", "-f", "-", given=given)
    assert (await kubectl.json("cm/c"))["data"] == {"a": "1"}
    await kubectl("patch", "cm", "c", "--type", "merge", "-p", '{"data":{"a":"2"}}')
    refused = await kubectl("apply", "--server-side", "-f", "-", given=given, check=False)
    assert refused.returncode == 1
    assert 'conflict with "kubectl-patch" using v1: .data.a' in refused.stderr
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=given)
    assert (await kubectl.json("cm/c"))["data"] == {"a": "1"}
    shown = await kubectl("get", "cm", "c", "-o", "yaml", "--show-managed-fields")
    assert "manager: kubectl" in shown.stdout


async def test_kubectl_moves_from_client_side_to_server_side_apply(kubectl: Person) -> None:
    await kubectl("apply", "-f", "-", given=a_configmap("c", {"a": "1", "b": "2"}))
    await kubectl("apply", "--server-side", "-f", "-", given=a_configmap("c", {"a": "3"}))
    assert (await kubectl.json("cm/c"))["data"]["a"] == "3"
    difference = await kubectl(
        *("diff", "--server-side", "-f", "-"), given=a_configmap("c", {"a": "9"}), check=False
    )
    assert (difference.returncode, '+  a: "9"' in difference.stdout) == (1, True)


@pytest.mark.parametrize("kind", ["strategic", "merge", "json"])
async def test_kubectl_patches(kubectl: Person, kind: str) -> None:
    await kubectl.api.made(kubectl.api.configmaps, a_configmap("c", {"a": "1"}))
    change: Any = {"data": {"a": "2"}}
    if kind == "json":
        change = [{"op": "replace", "path": "/data/a", "value": "2"}]
    await kubectl("patch", "cm", "c", "--type", kind, "-p", json.dumps(change))
    assert (await kubectl.json("cm/c"))["data"] == {"a": "2"}


async def test_kubectl_labels_and_annotates(kubectl: Person) -> None:
    await kubectl.api.made(kubectl.api.configmaps, a_configmap("c"))
    await kubectl("label", "cm", "c", "team=infra")
    refused = await kubectl("label", "cm", "c", "team=other", check=False)
    assert refused.returncode == 1
    await kubectl("label", "cm", "c", "team=other", "--overwrite")
    await kubectl("annotate", "cm", "c", "why=because")
    metadata = (await kubectl.json("cm/c"))["metadata"]
    assert metadata["labels"] == {"team": "other"}
    assert metadata["annotations"] == {"why": "because"}
    await kubectl("label", "cm", "c", "team-")
    assert "labels" not in (await kubectl.json("cm/c"))["metadata"]
    assert (await kubectl("get", "cm", "-l", "team=other", "-o", "name")).stdout == ""


async def test_kubectl_taints_and_cordons(kubectl: Person) -> None:
    node = await a_node(kubectl.api)

    async def taints(key: str) -> list[Obj]:
        found = (await kubectl.json(f"node/{node}"))["spec"].get("taints", [])
        return [taint for taint in found if taint["key"] == key]

    await kubectl("taint", "node", node, "ill=gpu:NoSchedule")
    assert await taints("ill") == [{"key": "ill", "value": "gpu", "effect": "NoSchedule"}]
    await kubectl("taint", "node", node, "ill:NoSchedule-")
    assert await taints("ill") == []
    await kubectl("cordon", node)
    assert (await kubectl.json(f"node/{node}"))["spec"]["unschedulable"] is True
    assert "SchedulingDisabled" in (await kubectl("get", "node", node)).stdout
    await kubectl("uncordon", node)
    assert "unschedulable" not in (await kubectl.json(f"node/{node}"))["spec"]


async def test_kubectl_drain_waits_for_the_budget(kubectl: Person) -> None:
    api = kubectl.api
    node = await a_node(api)
    other = await a_running_elsewhere(api)
    await a_running(api, "db-0", node)
    await api.made(api.pdbs, a_budget("db", {"matchLabels": {"app": "db"}}, minAvailable=1))
    await budget_allows(api, "db", 0, 1)
    process = await kubectl.start("drain", node, "--force", f"--timeout={DRAIN_SECONDS}s")
    try:
        seen = await read_until(process, "violate the pod's disruption budget")
        assert "evicting pod" in seen
        assert (await api.get(f"{api.pods}/db-0")).code == 200
        await a_running(api, "db-1", other)
        await budget_allows(api, "db", 1, 2)
        assert await asyncio.wait_for(process.wait(), DRAIN_SECONDS) == 0
    finally:
        await end(process)
    assert (await api.get(f"{api.pods}/db-0")).code == 404
    assert (await api.get(f"{api.pods}/db-1")).code == 200
    assert (await kubectl.json(f"node/{node}"))["spec"]["unschedulable"] is True


async def a_running_elsewhere(api: ContractApi) -> str:
    name = f"other-{api.ns}"
    await api.made(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    )
    return name


async def test_kubectl_waits(kubectl: Person) -> None:
    api = kubectl.api
    await api.made(api.foos, a_foo("x"))
    process = await kubectl.start("wait", "foo/x", "--for=condition=Ready", "--timeout=30s")
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    await api.patch(f"{api.foos}/x/status", {"status": status})
    await read_until(process, "condition met")
    assert await process.wait() == 0
    late = await kubectl("wait", "foo/x", "--for=condition=Never", "--timeout=1s", check=False)
    assert late.returncode == 1
    process = await kubectl.start("wait", "foo/x", "--for=delete", "--timeout=30s")
    await api.delete(f"{api.foos}/x")
    assert await asyncio.wait_for(process.wait(), 30) == 0
    await end(process)


async def test_kubectl_deletes(kubectl: Person) -> None:
    api = kubectl.api
    for name in ("a", "b", "c"):
        await api.made(api.configmaps, a_configmap(name, labels={"mine": str(name != "c")}))
    began = time.monotonic()
    assert "deleted" in (await kubectl("delete", "cm", "a")).stdout
    await kubectl("delete", "cm", "-l", "mine=True")
    left = (await kubectl("get", "cm", "-o", "name")).stdout.split()
    assert "configmap/c" in left
    assert not {"configmap/a", "configmap/b"} & set(left)
    assert time.monotonic() - began < 30


async def test_kubectl_explains_custom_resources(kubectl: Person) -> None:
    text = (await kubectl("explain", "foos.spec.a")).stdout
    assert "<integer>" in text


async def test_explain_knows_a_built_in_kind(kubectl: Person) -> None:
    assert "<string>" in (await kubectl("explain", "pods.spec.nodeName")).stdout
    assert "<[]Container>" in (await kubectl("explain", "deploy.spec.template.spec")).stdout


async def test_kubectl_refuses_unknown_fields_of_a_built_in_kind(kubectl: Person) -> None:
    body = {**a_configmap("c"), "dada": {"k": "v"}}
    refused = await kubectl("apply", "-f", "-", given=body, check=False)
    assert refused.returncode == 1
    assert 'unknown field "dada"' in refused.stderr


async def test_kubectl_apply_takes_items_off_a_list_that_is_joined(kubectl: Person) -> None:
    """kubectl works out the strategic merge patch by what the server says of its lists."""
    body = a_configmap("c", finalizers=["a.b/c"])
    await kubectl("apply", "-f", "-", given=body)
    spec = {"selector": {"app": "a"}, "ports": [{"name": n, "port": p} for n, p in PORTS]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
    await kubectl("apply", "-f", "-", given=service)
    service["spec"] = {**spec, "ports": [{"name": "b", "port": 81}]}
    await kubectl("apply", "-f", "-", given=service)
    ports = (await kubectl.json("service/s"))["spec"]["ports"]
    assert [(port["name"], port["port"]) for port in ports] == [("b", 81)]
    await kubectl("apply", "-f", "-", given=a_configmap("c"))
    assert "finalizers" not in (await kubectl.json("cm/c"))["metadata"]
