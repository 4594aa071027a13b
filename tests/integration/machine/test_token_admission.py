"""The operator's identity writes bootstrap tokens of Machines in kube-system, and nothing else."""

import asyncio
import copy
import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.machine_world import MACHINES, OPERATOR, OPERATOR_GROUPS, a_machine, closing

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, KubeError
from kubenode.runtime.kube.official import connect
from machine.bootstrap.tokens import Tokens, new_id, secret
from machine.names import MACHINE, MACHINE_UID

pytestmark = pytest.mark.integration

NAME = "admitted"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
NOT_YET = 30.0
"""Seconds within which the API server must know a policy that was just made."""


@pytest.fixture(scope="module")
def machine(cluster: ControlPlane) -> Iterator[Machine]:
    """One that is there: what a Machine owns that is not is collected."""
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(NAME)))
    yield Machine.model_validate(cluster.get(f"{MACHINES}/{NAME}"), extra="ignore")
    cluster.kubectl("delete", "knm", NAME)


def operator(cluster: ControlPlane) -> Kube:
    """A client with the operator's identity; close it."""
    return Kube(connect(str(cluster.kubeconfig_for(OPERATOR, OPERATOR_GROUPS))))


def a_secret(machine: Machine) -> dict[str, Any]:
    """As the operator makes them."""
    made = secret(new_id(), machine, SystemClock().now() + timedelta(hours=1))
    return copy.deepcopy(dict(made))


def coded(text: str) -> str:
    return b64encode(text.encode()).decode()


FOREIGN: dict[str, dict[str, Any]] = {
    "name": {"metadata": {"name": "cloud-credentials"}},
    "type": {"type": "Opaque"},
    "no owner": {"metadata": {"ownerReferences": []}},
    "another owner": {"metadata": {"annotations": {MACHINE: "other"}}},
    "another UID": {"metadata": {"annotations": {MACHINE_UID: "other"}}},
    "no annotations": {"metadata": {"annotations": None}},
    "another group": {"data": {"auth-extra-groups": coded("system:bootstrappers:kubeadm")}},
    "no group": {"data": {"auth-extra-groups": None}},
    "signing": {"data": {"usage-bootstrap-signing": coded("true")}},
}
"""What makes a Secret none of ours."""


def changed(made: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """As a merge patch changes it."""
    for key, value in change.items():
        if isinstance(value, dict):
            made[key] = changed(made.get(key) or {}, value)
        elif value is None:
            made.pop(key, None)
        else:
            made[key] = value
    return made


async def refusal(write: Any) -> str:
    try:
        await write
    except Forbidden as error:
        return str(error)
    except KubeError as error:
        return f"another error: {error}"
    return "done"


async def in_force(kube: Kube, machine: Machine) -> None:
    """The API server reads policies from its own cache."""
    async with asyncio.timeout(NOT_YET):
        while True:
            probe = {"dryRun": "All"}
            said = await refusal(
                kube.call("POST", SECRETS, probe, changed(a_secret(machine), FOREIGN["name"]))
            )
            if said != "done":
                return
            await asyncio.sleep(0.05)


async def test_what_is_none_of_ours_is_neither_made_nor_changed_nor_deleted(
    cluster: ControlPlane, machine: Machine
) -> None:
    async with closing(operator(cluster)) as kube:
        await in_force(kube, machine)
        said: dict[str, str] = {}
        for what, change in FOREIGN.items():
            theirs = changed(a_secret(machine), change)
            name = theirs["metadata"]["name"]
            said[f"make: {what}"] = await refusal(kube.create(SECRETS, theirs))
            cluster.kubectl("create", "-f", "-", stdin=json.dumps(theirs))
            patch = {"metadata": {"labels": {"x": "y"}}}
            said[f"change: {what}"] = await refusal(kube.patch(f"{SECRETS}/{name}", patch))
            said[f"delete: {what}"] = await refusal(kube.delete(f"{SECRETS}/{name}"))
            cluster.kubectl("delete", "secret", "-n", "kube-system", name)
        wrong = {what: why for what, why in said.items() if "Machine" not in why}
        assert wrong == {}
        assert all("bootstrap" in why for why in said.values())


async def test_ours_is_made_changed_and_deleted_but_not_made_another(
    cluster: ControlPlane, machine: Machine
) -> None:
    async with closing(operator(cluster)) as kube:
        await in_force(kube, machine)
        mine = a_secret(machine)
        token_id = mine["metadata"]["name"].removeprefix("bootstrap-token-")
        await kube.create(SECRETS, mine)
        tokens = Tokens(kube)
        kept = await tokens.read(token_id)
        assert kept is not None
        await tokens.extend(kept, SystemClock().now() + timedelta(hours=2))
        for what in ("no owner", "another owner", "another group", "signing"):
            said = await refusal(kube.patch(f"{SECRETS}/bootstrap-token-{token_id}", FOREIGN[what]))
            assert "Machine" in said, what
        kept = await tokens.read(token_id)
        assert kept is not None
        await tokens.revoke(kept)
        assert await tokens.read(token_id) is None


async def test_others_are_not_held_to_it(cluster: ControlPlane, machine: Machine) -> None:
    """Neither an administrator nor the garbage collector, which revokes with the Machine."""
    theirs = changed(a_secret(machine), FOREIGN["name"])
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(theirs))
    cluster.kubectl("delete", "secret", "-n", "kube-system", theirs["metadata"]["name"])
