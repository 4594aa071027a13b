"""Every call that deletes, stops, resets, replaces or reboots a machine is behind a protocol.

Each is either in `act` of `DisruptionGuard.perform`, or in BEHIND with the protocol that stands in
front of it. A new one fails here until it is either.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PACKAGES = ("agent", "captain", "defender", "machine", "remedy", "kubenode/cli", "kubenode/runtime")
METHODS = frozenset({"off", "reset", "replace", "operate", "reboot", "delete"})
EXECUTORS = re.compile(r"provider|host|gpu|bus|inner|instance|cloud|machine_?access")
"""Names of what executes: providers' ports, an agent's host, its devices."""
REPLACEMENT_METHODS = ("method", "_method")
"""Names of who is asked for the replacement of a machine, by `ask`."""
OBJECTS = ("machine", "remedy/power", "kubenode/cli")
"""Where the deletion of an object in the API server deletes or replaces a machine."""

BEHIND = {
    # An agent's request: live reads of the request and of its permit, then the intent on the disk.
    "agent/actions/reboot.py::Reboot.act::reboot": "agent.core, agent.jobpermits and the journal",
    "agent/actions/gpu.py::ResetGPU.act::reset": "agent.core, agent.jobpermits and the journal",
    "agent/components/engine.py::ComponentEngine._reboot::reboot": "the live permit of the change",
    "agent/host/systemd.py::SystemdHost.reboot::reboot": "is the executor",
    # A method of replacement: `ReplacementMethod.ask` is called in Replacing.act alone.
    "remedy/power/instancegroup.py::InstanceGroup.ask::replace": "ReplacementMethod.ask",
    "remedy/power/methods.py::ObjectReplacement.delete::delete": "ReplacementMethod.ask",
    "remedy/power/karpenter.py::Karpenter.ask::delete": "ReplacementMethod.ask",
    "remedy/power/clusterapi.py::ClusterApi.ask::delete": "ReplacementMethod.ask",
    # No machine goes with these objects.
    "machine/bootstrap/tokens.py::Tokens.revoke::delete": "a bootstrap token",
    "machine/machine/act.py::MachineActs.do::operate": "InstanceAccess.operate asks the guard",
    "machine/machine/act.py::MachineActs._delete::delete": "its calls are listed",
    "machine/machineset/act.py::SetActs._give_up::delete": "is `act` of SetActs.delete",
    "machine/clusterapi/adoption.py::Adoption._do::delete": "an adopted Machine is let go",
    # A person's own words.
    "kubenode/cli/machine_export.py::Exporter._give_up::delete": "a person deletes the Machine",
    "kubenode/cli/machine_export.py::Exporter._lease::delete": "the Lease of its agent",
    "kubenode/cli/member_import.py::_delete_path::delete": "a person removes a member",
    "kubenode/cli/uninstall.py::Uninstaller._delete::delete": "a person takes KubeNode off",
}


@dataclass(frozen=True)
class DestructiveCall:
    place: str
    line: int
    guarded: bool


def calls_in(source: str, file: str, objects: bool) -> Iterator[DestructiveCall]:
    """Every mention of a method in METHODS of what executes, called at once or handed on."""
    yield from _walk(ast.parse(source), file, [], objects, guarded=False)


def _walk(
    node: ast.AST, file: str, scope: list[str], objects: bool, guarded: bool
) -> Iterator[DestructiveCall]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        scope = [*scope, node.name]
    if isinstance(node, ast.Attribute) and _destroys(node, objects):
        yield DestructiveCall(f"{file}::{'.'.join(scope)}::{node.attr}", node.lineno, guarded)
    for child in ast.iter_child_nodes(node):
        inside = guarded or _is_act(node, child)
        yield from _walk(child, file, scope, objects, inside)


def _is_act(node: ast.AST, child: ast.AST) -> bool:
    """Whether `child` is the argument `act` of a call of `perform`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "perform" and isinstance(child, ast.keyword) and child.arg == "act"


def _destroys(node: ast.Attribute, objects: bool) -> bool:
    if node.attr == "ask" and isinstance(node.ctx, ast.Load):
        return _last_name(node.value) in REPLACEMENT_METHODS
    if node.attr not in METHODS or not isinstance(node.ctx, ast.Load):
        return False
    name = _last_name(node.value)
    if EXECUTORS.search(name):
        return True
    return objects and node.attr == "delete" and name in ("kube", "_kube", "self")


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return getattr(node, "attr", getattr(node, "id", ""))


@cache
def every_call() -> list[DestructiveCall]:
    found: list[DestructiveCall] = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            objects = file.startswith(OBJECTS)
            found += calls_in(path.read_text(), file, objects)
    return found


def test_every_destructive_call_is_behind_the_guard_or_a_protocol_that_is_named() -> None:
    bare = [one for one in every_call() if not one.guarded and one.place not in BEHIND]
    assert bare == [], "put it into `act` of DisruptionGuard.perform"


def test_no_protocol_is_named_for_a_call_that_is_not_there() -> None:
    there = {one.place for one in every_call() if not one.guarded}
    assert sorted(BEHIND.keys() - there) == []


def test_the_machine_operator_calls_providers_through_the_guard_alone() -> None:
    of_providers = [
        one
        for one in every_call()
        if one.place.startswith("machine/") and one.place.endswith(("::delete", "::operate"))
    ]
    guarded = {one.place for one in of_providers if one.guarded}
    assert "machine/machine/instances.py::InstanceAccess.terminate::delete" in guarded
    assert "machine/machine/instances.py::InstanceAccess.operate::operate" in guarded


def test_the_repair_jobs_stop_reset_and_replace_machines_through_the_guard_alone() -> None:
    jobs = [one for one in every_call() if one.place.startswith("remedy/")]
    assert {one.place for one in jobs if one.guarded} == {
        "remedy/power/access.py::PowerAccess.act::off",
        "remedy/power/access.py::PowerAccess.act::reset",
        "remedy/power/replacer.py::Replacing.act::ask",
    }
    bare = {BEHIND.get(one.place, "") for one in jobs if not one.guarded}
    assert bare == {"ReplacementMethod.ask"}


@pytest.mark.parametrize(
    "source",
    [
        "async def end(provider):\n    await provider.delete('x://i', 'c')",
        "async def end(self):\n    await self._provider(machine).off(machine, 'r')",
        "ask = {'off': provider.off}",
        "class A:\n    async def go(self):\n        await self._host.reboot()",
        "async def go(method):\n    await method.ask(request)",
        "async def go(guard):\n    await guard.perform(request, target=provider.reset, act=other)",
    ],
)
def test_a_call_that_is_not_in_act_of_perform_is_listed_as_bare(source: str) -> None:
    assert [one.guarded for one in calls_in(source, "x.py", objects=False)] == [False]


def test_a_call_in_act_of_perform_is_guarded() -> None:
    source = "guard.perform(request, intent=i, target=t, act=lambda: provider.delete('i', 'c'))"
    assert [one.guarded for one in calls_in(source, "x.py", objects=False)] == [True]
