"""Rules for the Nodes of another project's machines, and their jobs."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from support.kwok_machines import FAULT
from support.neighbour_site import PATIENCE
from support.remedy_cluster import Cluster

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.runtime.clock import SystemClock

CONDITION = {"condition": {"type": FAULT, "status": "True"}}
VERIFY = {"for": "1s", "settle": "0s", "timeout": "90s"}
REPAIR = {"name": "boot", "steps": [{"cordon": {}}, {"powerCycle": {}}], "verify": VERIFY}
REPLACE = {"name": "replace", "steps": [{"cordon": {}}, {"replace": {}}], "verify": VERIFY}


async def create_rule(
    cluster: Cluster,
    name: str,
    pool: str,
    rung: dict[str, Any],
    when: dict[str, Any] = CONDITION,
) -> None:
    """A rule in Enforce for the Nodes whose label `pool` is `name`."""
    await cluster.rule(
        name,
        mode="Enforce",
        faultClass="machine_unhealthy",
        nodes={"selector": {"matchLabels": {pool: name}}},
        when=when,
        groupWait="0s",
        startupGrace="0s",
        cooldown="0s",
        ladder=[rung],
    )


async def wait_for_job(
    cluster: Cluster, node: str, holds: Callable[[RemedyOperationJob], bool]
) -> RemedyOperationJob:
    return await cluster.wait(lambda job: job.spec.node_name == node and holds(job), PATIENCE)


async def succeeded_job(cluster: Cluster, node: str) -> RemedyOperationJob:
    """The job of a node, once it has succeeded."""
    job = await wait_for_job(cluster, node, lambda job: job.status.phase.closed)
    assert job.status.phase is JobPhase.SUCCEEDED, job.status.message
    return job


async def until(read: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> Any:
    """What `read` returns, once that holds."""
    clock = SystemClock()
    end = clock.monotonic() + PATIENCE
    while not holds(seen := await read()):
        late = clock.monotonic() > end
        assert not late, f"not within {PATIENCE:g} s: {json.dumps(seen, default=str)}"
        await clock.sleep(0.2)
    return seen
