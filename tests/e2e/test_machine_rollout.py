"""Components on real hosts from the first installation on, through everything that goes wrong.

Real hosts with the packaged agent under its own identity, packages built here, a real API server,
the Machine operator and Kube Defender as processes. One story, as each part begins where the last
one ended.

KUBENODE_ROLLOUT_HOSTS  how many hosts (default 5, at least 3)
"""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from support.agent_service import AGENT
from support.components import CONTROL_PLANE, require
from support.hosts import Hosts
from support.rollout_hosts import (
    BAD,
    FRAGILE,
    NEEDS,
    NEW,
    OLD,
    Rollouts,
    a_component,
    a_set,
    assigned,
    component,
    file_of,
    rollouts,
    text_of,
)
from support.rollout_steps import Steps

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

COUNT = max(3, int(os.environ.get("KUBENODE_ROLLOUT_HOSTS", "5")))
AT_ONCE: dict[str, Any] = {"batches": ["100%"], "maxUnavailable": "100%", "bakeTime": "0s"}
CAREFUL: dict[str, Any] = {
    "batches": [1, 2],
    "maxUnavailable": 2,
    "bakeTime": "3s",
    "maxAttempts": 1,
}
LENIENT: dict[str, Any] = {
    **CAREFUL,
    "maxUnavailable": 3,
    "machineTimeout": "30s",
    "failurePolicy": "Continue",
}
"""One may be dead. A host that is only slow is late, and well in the end."""
REVERTING: dict[str, Any] = {**CAREFUL, "bakeTime": "0s", "failurePolicy": "Rollback"}


@pytest.fixture(scope="module")
def fleet(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rollouts]:
    require(CONTROL_PLANE)
    with rollouts(hosts, tmp_path_factory.mktemp("rollout"), COUNT) as made:
        yield made


def test_f30_f31_invariants_06_07_08_a_fleet_through_good_and_bad_rollouts(
    fleet: Rollouts,
) -> None:
    installs_in_the_order_of_dependencies(fleet)
    upgrades_in_batches_though_operator_and_agent_are_killed(fleet)
    stops_a_version_that_crashes_at_the_canary(fleet)
    takes_back_by_policy_what_fails_after_the_canary(fleet)
    puts_right_what_was_changed_by_hand(fleet)
    says_which_file_two_components_claim(fleet)
    goes_on_without_a_host_that_dies(fleet)


def installs_in_the_order_of_dependencies(fleet: Rollouts) -> None:
    fleet.create(*(a_component(name, version) for name in NEEDS for version in (OLD, NEW)))
    fleet.create(a_component("wheel", BAD), a_component("gear", BAD))
    fleet.create(*(a_set(name, **AT_ONCE) for name in reversed(NEEDS)))
    for name in NEEDS:
        fleet.until(partial(fleet.completed, name, OLD), f"{name} is on all hosts")
    fleet.until(partial(running, fleet), "every Machine is Running")
    for name, host in fleet.hosts.items():
        lines = host.read("/var/log/dpkg.log").splitlines()
        steps = [line.split()[3].partition(":")[0] for line in lines if " configure " in line]
        order = [step for step in steps if step in NEEDS]
        assert order == list(NEEDS), f"{name}: what others stand on goes first, and each once"
        for part in NEEDS:
            assert host.read(file_of(part)) == text_of(part, OLD), f"{name}: the file of {part}"
            assert host.unit(f"{part}.service", "ActiveState") == "active", f"{name}: {part}"


def upgrades_in_batches_though_operator_and_agent_are_killed(fleet: Rollouts) -> None:
    hold(fleet, "wheel")
    fleet.change("wheel", component=f"wheel-{NEW}", updateStrategy=CAREFUL)
    steps = Steps(fleet, "wheel", f"wheel-{NEW}")
    first = steps.until(lambda: in_dpkg(fleet, "wheel"), "the first host is in the middle of dpkg")
    fleet.hosts[first].run("systemctl", "kill", "--signal=KILL", AGENT)
    untouched(fleet, [name for name in fleet.hosts if name != first], "wheel", OLD)
    assert not fleet.schedulable(first), "a change of class Drain cordons its node"
    release(fleet, "wheel")
    steps.until(lambda: fleet.completed("wheel", NEW), "the upgrade is completed")
    at_work = [seen for seen in steps.seen if seen.begun and seen.allowed and seen.cordoned]
    assert at_work, f"killed while a host was at work: {steps.seen}"

    for name, host in fleet.hosts.items():
        assert fleet.configured(name, "wheel") == [f"{OLD}-1", f"{NEW}-1"], f"{name}: each once"
        assert host.read(file_of("wheel")) == text_of("wheel", NEW), f"{name}: new as a whole"
        assert host.run("dpkg", "--audit").stdout == "", f"{name}: nothing is left in the middle"
        fleet.until(partial(fleet.schedulable, name), f"{name} is schedulable again")
    batches_were_kept(fleet, first, f"wheel-{NEW}")
    never_more_at_once(fleet)


def stops_a_version_that_crashes_at_the_canary(fleet: Rollouts) -> None:
    before = {name: fleet.invocation(name, "wheel") for name in fleet.hosts}
    fleet.change("wheel", component=f"wheel-{BAD}")

    def stopped() -> str:
        paused = fleet.condition("wheel", "Paused")
        return str(paused["message"]) if paused.get("reason") == "AutoPaused" else ""

    message = fleet.until(stopped, "the set stops by itself")
    machines = fleet.machines()
    touched = [name for name, m in machines.items() if assigned(m, "wheel") == f"wheel-{BAD}"]
    assert len(touched) == 1, f"the canary alone: {touched}"
    (canary,) = touched
    assert canary in message, message
    assert fleet.set("wheel")["status"]["phase"] == "Paused"
    assert fleet.set("wheel")["status"]["batch"]["failed"] == [canary]
    told = component(fleet.machine(canary), "wheel")
    assert (told["state"], told["version"]) == ("RolledBack", NEW), told

    host = fleet.hosts[canary]
    assert host.unit("wheel.service", "ActiveState") == "active", "the old version runs"
    assert host.read(file_of("wheel")) == text_of("wheel", NEW), "with its old file"
    fleet.until(lambda: fleet.schedulable(canary), "the canary is schedulable again")
    fleet.until(lambda: not fleet.machine(canary)["spec"].get("permit"), "no permit is left")
    for name in fleet.hosts:
        if name != canary:
            assert fleet.invocation(name, "wheel") == before[name], f"{name} was not touched"
            assert fleet.configured(name, "wheel")[-1] == f"{NEW}-1", f"{name} was not touched"

    fleet.change("wheel", component=f"wheel-{NEW}")
    fleet.until(lambda: fleet.completed("wheel", NEW), "asked for the old one, the stop is over")
    never_more_at_once(fleet)


def takes_back_by_policy_what_fails_after_the_canary(fleet: Rollouts) -> None:
    before = {name: fleet.invocation(name, "gear") for name in fleet.hosts}
    hold(fleet, "gear")
    fleet.change("gear", component=f"gear-{BAD}", updateStrategy=REVERTING)
    canary = fleet.until(lambda: in_dpkg(fleet, "gear"), "the canary is in the middle of dpkg")
    for name, host in fleet.hosts.items():
        if name != canary:
            host.write(FRAGILE, "")
    release(fleet, "gear")

    def rejected() -> bool:
        return fleet.condition("gear", "Degraded").get("reason") == "RolledBack"

    fleet.until(rejected, "the version is rejected")
    fleet.kill_operator("the way back has begun")
    for name, host in fleet.hosts.items():
        fleet.until(partial(fleet.runs, name, "gear", OLD), f"{name} is on the old version")
        assert assigned(fleet.machine(name), "gear") == f"gear-{OLD}", name
        assert host.read(file_of("gear")) == text_of("gear", OLD), name
        assert host.unit("gear.service", "ActiveState") == "active", name
    back = [name for name in fleet.hosts if f"{BAD}-1" in fleet.configured(name, "gear")]
    assert canary in back and 2 <= len(back) <= 3, f"the canary and the second batch: {back}"
    for name in fleet.hosts:
        fleet.until(partial(fleet.schedulable, name), f"{name} is schedulable again")
        if name not in back:
            assert fleet.invocation(name, "gear") == before[name], f"{name} was not touched"
    status = fleet.set("gear")["status"]
    assert status["rejectedRevision"] == status["updateRevision"] != status["currentRevision"]
    fleet.change("gear", component=f"gear-{OLD}")
    fleet.until(lambda: fleet.completed("gear", OLD), "asked for the old one, all is well")
    never_more_at_once(fleet)


def puts_right_what_was_changed_by_hand(fleet: Rollouts) -> None:
    name, host = next(iter(fleet.hosts.items()))
    running = fleet.invocation(name, "wheel")
    host.write(file_of("wheel"), "by hand\n")
    want = text_of("wheel", NEW)
    fleet.until(lambda: host.read(file_of("wheel")) == want, "the file comes back")
    assert fleet.invocation(name, "wheel") == running, "nothing was restarted for it"

    host.run("systemctl", "mask", "--now", "gear.service")
    fleet.until(
        lambda: host.unit("gear.service", "ActiveState") == "active", "a masked unit runs again"
    )
    assert host.unit("gear.service", "UnitFileState") == "enabled"
    fleet.until(lambda: fleet.runs(name, "gear", OLD), "and is told to be well")


def says_which_file_two_components_claim(fleet: Rollouts) -> None:
    """Neither is changed for it, and what runs goes on; without the second all is well again."""
    name, host = next(iter(fleet.hosts.items()))
    running_since = fleet.invocation(name, "wheel")
    claim = {"path": file_of("wheel"), "content": {"inline": "mine\n"}, "onChange": "None"}
    does = {"detect": ["false"], "install": ["true"], "uninstall": ["true"]}
    by = {"type": "script", "script": does}
    copy = a_component("copy", OLD, source=by, units=[], files=[claim])
    set_ = a_set("copy", **AT_ONCE)
    set_["spec"] |= {"selector": {"matchLabels": {"copied": "here"}}, "onUnselect": "Uninstall"}
    fleet.create(copy, set_)
    fleet.cp.kubectl("label", "machine", name, "copied=here")

    def conflict() -> str:
        conditions = fleet.machine(name)["status"]["conditions"]
        told = next(c for c in conditions if c["type"] == "ComponentsReady")
        return str(told["message"]) if told["reason"] == "FileConflict" else ""

    told = fleet.until(conflict, "the Machine says that a file is claimed twice")
    assert f"{file_of('wheel')} is" in told and "a file or key has one owner" in told
    assert component(fleet.machine(name), "copy")["state"] == "Blocked"
    assert host.read(file_of("wheel")) == text_of("wheel", NEW)
    assert fleet.invocation(name, "wheel") == running_since
    fleet.cp.kubectl("delete", "kncs", "copy", "--timeout=300s")
    fleet.until(lambda: not assigned(fleet.machine(name), "copy"), "the second one is gone")
    fleet.until(partial(running, fleet), "every Machine is Running again")
    assert host.read(file_of("wheel")) == text_of("wheel", NEW)
    assert fleet.invocation(name, "wheel") == running_since


def goes_on_without_a_host_that_dies(fleet: Rollouts) -> None:
    hold(fleet, "motor")
    fleet.change("motor", component=f"motor-{NEW}", updateStrategy=LENIENT)
    dead = fleet.until(lambda: in_dpkg(fleet, "motor"), "a host is in the middle of dpkg")
    others = [name for name in fleet.hosts if name != dead]
    untouched(fleet, others, "motor", OLD)
    fleet.hosts[dead].power_cut()
    fleet.ready(dead, "Unknown")
    release(fleet, "motor")

    for name in others:
        fleet.until(partial(fleet.runs, name, "motor", NEW), f"{name} has its turn")
        assert fleet.configured(name, "motor") == [f"{OLD}-1", f"{NEW}-1"], f"{name}: once"

    def named() -> bool:
        said = fleet.condition("motor", "Degraded")
        return said.get("reason") == "MachinesFailed" and dead in said["message"]

    fleet.until(named, "the set names the host that died")

    fleet.hosts[dead].start()
    fleet.ready(dead, "True")
    fleet.until(lambda: fleet.runs(dead, "motor", NEW), "it goes on where it was, once it is back")
    assert fleet.hosts[dead].run("dpkg", "--audit").stdout == "", "nothing is left in the middle"
    fleet.until(lambda: fleet.completed("motor", NEW), "and the rollout is completed")
    fleet.until(lambda: fleet.schedulable(dead), "its node is schedulable again")
    fleet.until(partial(running, fleet), "every Machine is Running again")
    never_more_at_once(fleet)


# -- hands and eyes -------------------------------------------------------------------------------


def running(fleet: Rollouts) -> bool:
    return all(m["status"].get("phase") == "Running" for m in fleet.machines().values())


def hold(fleet: Rollouts, package: str) -> None:
    """Whichever host is first stays in the middle of dpkg."""
    for host in fleet.hosts.values():
        host.write(f"/opt/hold-{package}", "")


def release(fleet: Rollouts, package: str) -> None:
    for host in fleet.hosts.values():
        (host.root / "opt" / f"hold-{package}").unlink()


def in_dpkg(fleet: Rollouts, package: str) -> str:
    """The host on which the package's script runs, "" for none."""
    for name, host in fleet.hosts.items():
        if host.run("pgrep", "-f", f"{package}.postinst", check=False).returncode == 0:
            return name
    return ""


def untouched(fleet: Rollouts, names: list[str], part: str, version: str) -> None:
    for name in names:
        assert assigned(fleet.machine(name), part) == f"{part}-{version}", f"{name} waits"
        assert fleet.configured(name, part)[-1] == f"{version}-1", f"{name} waits"


def batches_were_kept(fleet: Rollouts, first: str, wanted: str) -> None:
    """By all that the Machines ever were: a batch began when those before it were well."""
    name, began = wanted.rpartition("-")[0], list[str]()
    version = wanted.removeprefix(f"{name}-")
    for machines in fleet.history.states():
        new = [m for m in machines if assigned(machines[m], name) == wanted and m not in began]
        for machine in new:
            before = [] if not began else began[:1] if len(began) < 3 else began[:3]
            for other in before:
                told = component(machines[other], name)
                well = told.get("state") == "Healthy" and told.get("version") == version
                assert well, f"{machine} began while {other} was {told}"
            began.append(machine)
    assert began[0] == first and sorted(began) == sorted(fleet.hosts), began


def never_more_at_once(fleet: Rollouts) -> None:
    """From the first upgrade on: installing on empty hosts was to be at once."""
    limit = len(fleet.hosts)
    for machines in fleet.history.states():
        for part, strategy in (("wheel", CAREFUL), ("motor", LENIENT)):
            if any(assigned(m, part) == f"{part}-{NEW}" for m in machines.values()):
                limit = strategy["maxUnavailable"]
        allowed = [name for name, m in machines.items() if m["spec"].get("permit")]
        assert len(allowed) <= limit, f"{allowed} at once, of {limit}"
