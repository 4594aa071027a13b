"""MachineSets on a real API server, under the operator's own rights, with a cloud in memory."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.machine_sets import Site, a_class, a_set, site
from support.machine_world import until

from kubenode.api.v1alpha1.permit import Operation, Reason
from kubenode.runtime.kube import paths
from machine.ground import MachineSettings
from machine.meltdown import MeltdownTimes

pytestmark = pytest.mark.integration

SETTINGS = MachineSettings(freeze=MeltdownTimes(thaw=0.5), scan=0.3)
AT_ONCE = {"unhealthyConditions": [{"type": "Ready", "status": "False", "for": "0s"}]}


@pytest.fixture
async def here(cluster: ControlPlane, tmp_path: Path) -> AsyncIterator[Site]:
    async with site(cluster, tmp_path, SETTINGS) as found:
        yield found


async def test_a_set_is_scaled_out_and_in_by_autoscalers_words(here: Site) -> None:
    await here.make(a_set("pool", 1))
    await here.counts("pool", replicas=1, ready=1, available=1, up_to_date=1, made=1)
    here.world.cp.kubectl("scale", "machinesets/pool", "--replicas=3")
    found = await here.counts("pool", replicas=3, available=3, made=3)
    assert found.status.selector == "set=pool"
    names = await here.names("pool")
    assert len(here.cloud.made) == 3
    machine = (await here.members("pool"))[0]
    assert machine.spec.failure_domain == "zone-a"
    assert machine.metadata.owner_references[0].name == "pool"

    await here.world.annotate(names[0], **{"delete-first": ""})
    await here.world.annotate(names[2], **{"hands-off": ""})
    await here.change("pool", replicas=2)
    await here.settled("pool", *names[1:])
    await here.change("pool", replicas=0)
    await here.settled("pool", names[2])
    assert "1 of 0 machines" in await here.says("pool", "Scaled", "HandsOff")
    asked = {(ask.operation, ask.holder.kind) for ask in here.permits.asked}
    assert asked == {(Operation.SCALE_IN, "Machine")}
    await here.world.annotate(names[2], **{"hands-off": "false"})
    await here.settled("pool")
    assert not here.cloud.instances
    await here.change("pool", replicas=1)
    await here.counts("pool", available=1, made=4)
    assert await here.names("pool") != names[:1]

    async def released() -> bool:
        return not here.permits.held

    await until(released, "permits are still held")


async def test_an_unhealthy_machine_is_replaced_once_kube_defender_lets_it(here: Site) -> None:
    await here.make(a_set("sick", 2, health=AT_ONCE))
    await here.counts("sick", available=2)
    first, second = await here.names("sick")
    here.permits.no = Reason.CONCURRENCY_LIMIT
    await here.falls_ill(first)
    assert first in await here.says("sick", "Healthy", "PermitDenied")
    # The other one has come meanwhile, beside it.
    assert len(await here.names("sick")) == 3
    here.permits.no = None
    third = next(name for name in await here.names("sick") if name not in (first, second))
    await here.settled("sick", second, third)
    assert len(here.cloud.instances) == 2
    assert here.permits.asked[-1].operation is Operation.REPLACE


async def test_invariant_13_an_empty_list_of_instances_freezes_and_thaws(here: Site) -> None:
    await here.make(a_set("froze", 1, health=AT_ONCE, maxSurge=0))
    await here.counts("froze", available=1)
    name = (await here.names("froze"))[0]
    there, here.cloud.instances = here.cloud.instances, {}
    settled = {"why": ""}

    async def frozen() -> bool:
        conditions = (await here.the_set("froze")).status.conditions
        condition = next(c for c in conditions if c.type == "Healthy")
        settled["why"] = condition.message
        return condition.reason == "Frozen"

    # Its instances are not listed, and its Node is not Ready: both would be reasons to replace it.
    async def sees_nothing() -> bool:
        return here.cloud.lists > lists + 2

    lists = here.cloud.lists
    await until(sees_nothing, "nobody looked")
    await here.falls_ill(name)
    await until(frozen, "not frozen")
    assert "lists no instance, but 1 Machines have one" in settled["why"]
    assert await here.names("froze") == [name]
    here.cloud.instances = there
    found = await here.counts("froze", available=1, made=2)
    assert found.status.replicas == 1 and name not in await here.names("froze")


async def test_a_class_says_what_is_wrong_and_none_is_made_until_it_is_right(here: Site) -> None:
    await here.make(a_class("other", provider="aws", config={}))
    body = a_set("wrong", 1)
    body["spec"]["template"]["spec"]["classRef"] = "other"
    await here.make(body)
    not_ready = "MachineClass other is not Ready"
    told = await here.says("wrong", "Scaled", "PreflightFailed", not_ready)
    assert "providers file" in told
    assert await here.names("wrong") == []
    body["spec"]["template"]["spec"]["classRef"] = "ecs-a"
    await here.change("wrong", template=body["spec"]["template"])
    await here.counts("wrong", available=1)
    class_ = await here.kube.get(paths.custom("machineclasses", "ecs-a"))
    assert class_["status"]["classHash"].startswith("1-")

    await here.change("wrong", updatePolicy="Replace")
    await here.kube.patch(
        paths.custom("machineclasses", "ecs-a"), {"spec": {"config": {"image": "debian-13"}}}
    )
    await here.counts("wrong", replicas=1, available=1, up_to_date=1, made=2)


async def test_a_set_takes_its_own_back_and_lets_go_what_it_asks_for_no_more(here: Site) -> None:
    await here.make(a_set("mine", 1))
    await here.counts("mine", available=1)
    name = (await here.names("mine"))[0]
    here.world.cp.kubectl("delete", "machinesets/mine", "--cascade=orphan")
    await here.make(a_set("mine", 1))
    await here.counts("mine", available=1, made=0)
    assert await here.names("mine") == [name]
    patch = json.dumps({"metadata": {"labels": {"set": "nobodys"}}})
    here.world.cp.kubectl("patch", "machine", name, "--type=merge", "-p", patch)
    await here.counts("mine", available=1, made=1)
    free = await here.world.machine(name)
    assert not free.metadata.owner_references and free.metadata.deletion_timestamp is None
