"""Log lines and deliveries in a timeline: the agent's watcher and Host Doctor read them."""

from typing import Any

import pytest
from support.replay_world import a_rule, a_world, ages, at, feed

from simulation.replay.world import World, heals

MINUTE, HOUR = 60, 3600
HUNG = "INFO: task docker:20744 blocked for more than 120 seconds."
VM = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm_7"
DEADLOCK = {"condition": {"type": "KernelDeadlock", "status": "True", "for": "30s"}}


def said(world: World, node: str, type_: str) -> tuple[str, str]:
    found = next(c for c in world.nodes[node].status.conditions if c.type == type_)
    return found.status, found.reason


def kernel(world: World, seconds: float, text: str, source: str = "kernel") -> None:
    feed(world, seconds, "a", log={"source": source, "text": text})


# -- log lines ----------------------------------------------------------------------------------


def test_a_line_of_the_kernel_becomes_the_condition_that_a_rule_reads() -> None:
    world = a_world(a_rule(when=DEADLOCK))
    kernel(world, 10, f"[ 7213.4] {HUNG}")
    at(world, 60)
    assert said(world, "a", "KernelDeadlock") == ("True", "DockerHung")
    assert ages(world) == [("a", "sick", 40)]


def test_the_same_line_of_anybody_else_is_nothing() -> None:
    world = a_world(a_rule(when=DEADLOCK))
    kernel(world, 10, HUNG, source="kubelet")
    at(world, HOUR)
    assert said(world, "a", "KernelDeadlock") == ("False", "KernelHasNoDeadlock")
    assert ages(world) == []


def test_lines_are_counted_as_the_events_that_the_agent_writes() -> None:
    world = a_world(a_rule(when={"event": {"reason": "OOMKilling", "count": 3, "within": "10m"}}))
    for second in (10, 20, 30):
        kernel(world, second, "Out of memory: Killed process 12 (java) total-vm:1kB, anon-rss:1kB")
    at(world, MINUTE)
    assert ages(world) == [("a", "sick", 30)]


def test_a_condition_goes_when_its_lines_have_been_quiet_for_long_enough() -> None:
    world = a_world()
    kernel(world, 0, "nf_conntrack: nf_conntrack: table full, dropping packet")
    at(world, MINUTE)
    assert said(world, "a", "ConntrackTableFull")[0] == "True"
    at(world, 5 * MINUTE)
    assert said(world, "a", "ConntrackTableFull")[0] == "False"


def test_a_boot_ends_what_a_boot_ends() -> None:
    world = a_world()
    kernel(world, 0, HUNG)
    kernel(world, 0, "Device: /dev/sdb [SAT], 256 Offline uncorrectable sectors", source="smartd")
    feed(world, MINUTE, "a", boot={})
    at(world, 2 * MINUTE)
    assert said(world, "a", "KernelDeadlock")[0] == "False"
    assert said(world, "a", "DiskBadBlock")[0] == "True"


def test_a_repair_that_helps_ends_the_condition_of_the_watcher_too() -> None:
    world = a_world(a_rule(when=DEADLOCK), heals=heals)
    kernel(world, 0, HUNG)
    at(world, HOUR)
    assert said(world, "a", "KernelDeadlock")[0] == "False"
    assert [job.open for job in world.jobs] == [False]


# -- deliveries ---------------------------------------------------------------------------------


def listed(world: World, seconds: float, *events: dict[str, Any], node: str = "a") -> None:
    payload = {"DocumentIncarnation": 1, "Events": list(events)}
    feed(world, seconds, node, delivery={"transport": "azure_imds", "payload": payload})


def event(*machines: str, status: str = "Scheduled") -> dict[str, Any]:
    return {
        "EventId": "E1",
        "EventStatus": status,
        "EventType": "Redeploy",
        "ResourceType": "VirtualMachine",
        "Resources": list(machines),
        "EventSource": "Platform",
        "NotBefore": "2026-01-05T12:20:00Z" if status == "Scheduled" else "",
        "Description": "x",
        "DurationInSeconds": -1,
    }


def azure(**options: Any) -> World:
    when = {"hostEvent": {"class": "Redeploy", "phase": "Scheduled", "startsWithin": "1h"}}
    steps = [{"cordon": {}}, {"migrate": {}}, {"waitForEvent": {"until": ["Completed"]}}]
    ladder = [{"name": "evacuate", "steps": steps, "verify": {"for": "10s", "timeout": "1h"}}]
    world = a_world(a_rule(when=when, ladder=ladder, onGiveUp="Release"), nodes=(), **options)
    world.add_node("a", provider_id=VM)
    world.add_node("b", provider_id=VM.replace("vm_7", "vm_8"))
    return world


def test_an_event_of_several_machines_concerns_the_node_whose_agent_tells_it() -> None:
    world = azure()
    listed(world, 5, event("vm_7", "vm_8", "vm_9"))
    at(world, MINUTE)
    assert ages(world) == [("a", "sick", 5)]


def test_an_event_of_others_is_passed_over() -> None:
    world = azure()
    listed(world, 5, event("vm_8", "vm_9"))
    at(world, HOUR)
    assert ages(world) == []
    assert len(world.deliveries.reports) == 1


def test_a_list_that_lacks_the_event_ends_it_and_gives_the_node_back() -> None:
    world = azure()
    listed(world, 5, event("vm_7"))
    listed(world, 20 * MINUTE, event("vm_7", status="Started"))
    at(world, 25 * MINUTE)
    assert world.nodes["a"].spec.unschedulable
    listed(world, 30 * MINUTE)
    at(world, 40 * MINUTE)
    assert not world.nodes["a"].spec.unschedulable
    assert world.jobs[0].uncordoned is not None


def alert(**labels: str) -> dict[str, Any]:
    one = {"status": "firing", "labels": labels, "startsAt": "2026-01-05T11:00:00Z"}
    body = {"version": "4", "groupKey": "g", "receiver": "r", "alerts": [one]}
    return {"transport": "alertmanager", "payload": body}


@pytest.mark.parametrize(
    ("labels", "nodes"),
    [
        ({"instance": "10.0.0.5:9100"}, ["a"]),
        ({"instance": "host-a.internal:9100"}, ["a"]),
        ({"node": "b", "instance": "10.0.0.5:8080"}, ["b"]),
        ({"instance": "10.0.0.9:9100"}, []),
        ({"cluster": "prod"}, []),
    ],
)
def test_an_alert_is_about_the_node_that_its_labels_name(
    labels: dict[str, str], nodes: list[str]
) -> None:
    world = a_world(a_rule(when={"alert": {"name": "Sick"}}), nodes=())
    world.add_node("a", addresses=["10.0.0.5", "host-a.internal"])
    world.add_node("b")
    feed(world, 5, "", delivery=alert(alertname="Sick", **labels))
    at(world, MINUTE)
    assert [job.node for job in world.jobs] == nodes
    assert bool(world.deliveries.notices) is not bool(nodes), "what no rule sees, people are told"


def test_what_cannot_be_read_is_counted_and_changes_nothing() -> None:
    world = azure()
    feed(world, 5, "a", delivery={"transport": "azure_imds", "payload": {"Events": "none"}})
    at(world, MINUTE)
    assert len(world.deliveries.refused) == 1
    assert ages(world) == []
