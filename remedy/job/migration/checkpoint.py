"""Asks a receiver to save a gang's work before the gang leaves its node.

The receiver gets a POST until it is done: 200 or 204 means done, 202 in progress. All requests for
one gang of one job carry the same key, so a repeated request is no new checkpoint.
"""

import hashlib
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Protocol

from kubenode.api.v1alpha1.steps import CheckpointWebhook, Gang, MigrateStep
from kubenode.runtime.drain.gangs import gang_of
from kubenode.runtime.drain.policy import Protection, policy_of
from kubenode.runtime.kube.objects import Pod
from remedy.job.model import Job
from remedy.notify.message import NotDelivered

TIMEOUT = timedelta(seconds=10)
"""Timeout of one request; one that takes longer is repeated."""
PACE = timedelta(seconds=5)
"""Interval between two requests for one gang."""


class CheckpointReply(Protocol):
    @property
    def status(self) -> int: ...


class CheckpointSender(Protocol):
    """Sends a request to a receiver. Raises NotDelivered."""

    async def ask(
        self, receiver: str, body: Mapping[str, Any], key: str, within: timedelta | None = None
    ) -> CheckpointReply: ...


class Nobody:
    """Sender without configured receivers: every request fails."""

    async def ask(
        self, receiver: str, body: Mapping[str, Any], key: str, within: timedelta | None = None
    ) -> CheckpointReply:
        raise NotDelivered(f"the settings name no receiver {receiver}", final=True)


def members(
    pods: Collection[Pod], step: MigrateStep, protection: Protection
) -> dict[str, tuple[Gang, list[Pod]]]:
    """Return the gangs of a node by name, each with its policy and its pods on the node."""
    gangs: dict[str, tuple[Gang, list[Pod]]] = {}
    for pod in pods:
        policy = policy_of(pod, step, protection)
        if policy is not None and policy.gang is not None and (name := gang_of(pod, policy.gang)):
            gangs.setdefault(name, (policy.gang, []))[1].append(pod)
    return gangs


async def ask(
    direct: CheckpointSender,
    job: Job,
    name: str,
    checkpoint: CheckpointWebhook,
    pods: Collection[Pod],
) -> str | None:
    """Ask the receiver once. Return "" when the work is saved, None while it is in progress, else
    why it is not saved.
    """
    body = {
        "job": job.name,
        "node": job.spec.node_name,
        "gang": name,
        "pods": sorted(pod.metadata.key for pod in pods),
    }
    key = hashlib.sha256(f"{job.uid}/{name}".encode()).hexdigest()[:32]
    within = min(TIMEOUT, checkpoint.timeout)
    try:
        reply = await direct.ask(checkpoint.webhook, body, key, within)
    except NotDelivered as error:
        return str(error)
    if reply.status in (200, 204):
        return ""
    return None if reply.status == 202 else f"receiver {checkpoint.webhook}: {reply.status}"
