"""The floor for first_heal: one watch on Nodes, one create per fault, and nothing else.

What any controller must at least do. It has no cache, no rules, no limits and no second look, so
the difference between its figures and the product's is what those cost.

    python bare_controller.py KUBECONFIG CONDITION_TYPE
"""

import asyncio
import sys

import msgspec

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.kube.official import connect


class _WatchEvent(msgspec.Struct):
    type: str
    object: Node


def _job(node: Node) -> dict[str, object]:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {"name": f"bare-{node.metadata.name}"},
        "spec": {
            "nodeName": node.metadata.name,
            "agent": node.metadata.name,
            "trigger": {"firstTrue": "2026-01-01T00:00:00Z"},
            "ladder": [{"name": "none", "steps": [{"notify": {}}]}],
        },
    }


def faulty(node: Node, condition: str) -> bool:
    return any(c.type == condition and c.status == "True" for c in node.status.conditions)


async def main(kubeconfig: str, condition: str) -> None:
    kube = Kube(connect(kubeconfig), rate=10_000, burst=10_000)
    seen: set[str] = set()
    decode = msgspec.json.Decoder(_WatchEvent).decode
    try:
        version = (await kube.get(paths.nodes(), query={"limit": 1}))["metadata"]["resourceVersion"]
        print("ready", flush=True)  # noqa: T201  the benchmark waits for it
        async with asyncio.TaskGroup() as tasks:
            while True:  # the server ends a watch that falls behind
                query = {"watch": "true", "resourceVersion": version}
                answer = await kube.open("GET", paths.nodes(), query, timeout=3600)
                while line := await answer.content.readline():
                    node = decode(line).object
                    version = node.metadata.resource_version
                    if node.metadata.name not in seen and faulty(node, condition):
                        seen.add(node.metadata.name)
                        path = paths.custom("remedyoperationjobs")
                        tasks.create_task(kube.create(path, _job(node)))
    finally:
        await kube.close()


asyncio.run(main(*sys.argv[1:]))
