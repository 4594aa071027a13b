"""Secrets that the agent of a Machine may read, and the RBAC objects that say so. Pure.

Each agent with a certificate is a user of its own, so RBAC separates hosts: a Role that lists the
Secrets of the Machine's components and a RoleBinding to the agent's user, both named as the user.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinecomponent import MachineComponent
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.kube.objects import KubeObjectMeta
from machine.names import COMPONENTS, agent_user

RBAC_GROUP = "rbac.authorization.k8s.io"


class AccessRule(msgspec.Struct, rename="camel", gc=False):
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    verbs: list[str] = []


class AccessRole(msgspec.Struct, gc=False):
    """The fields of a Role that are compared."""

    metadata: KubeObjectMeta
    rules: list[AccessRule] = []


class AccessSubject(msgspec.Struct, rename="camel", gc=False):
    kind: str = ""
    api_group: str = ""
    name: str = ""


class AccessBinding(msgspec.Struct, gc=False):
    """The fields of a RoleBinding that are compared. Its roleRef is immutable."""

    metadata: KubeObjectMeta
    subjects: list[AccessSubject] = []


def list_secrets(machine: Machine, components: Mapping[str, MachineComponent]) -> set[str]:
    """Return the names of the Secrets to which the components on this Machine refer."""
    present = (components.get(component) for component in list_present(machine))
    return {
        file.content.secret_key.name
        for component in present
        if component is not None
        for file in component.spec.files
        if file.content.secret_key is not None
    }


def list_present(machine: Machine) -> set[str]:
    """Return the MachineComponents whose texts the Machine's host needs."""
    entries = machine.spec.components
    return {e.component for e in entries if e.desired_state is not DesiredState.ABSENT}


def list_granted(role: AccessRole | None) -> set[str]:
    """Return the names of the Secrets that the Role lists."""
    return {name for rule in role.rules for name in rule.resource_names} if role else set()


def build_role(machine: Machine, secrets: Iterable[str]) -> dict[str, Any]:
    names = sorted(secrets)
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get"]}
    return {**_head("Role", machine), "rules": [rule] if names else []}


def build_binding(machine: Machine) -> dict[str, Any]:
    user = agent_user(machine.metadata.name)
    return {
        **_head("RoleBinding", machine),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": user}],
    }


def is_role_current(role: AccessRole, machine: Machine, secrets: Iterable[str]) -> bool:
    wanted = msgspec.convert(build_role(machine, secrets), AccessRole)
    return role.rules == wanted.rules and _owned(role.metadata, machine)


def is_binding_current(binding: AccessBinding, machine: Machine) -> bool:
    wanted = msgspec.convert(build_binding(machine), AccessBinding)
    return binding.subjects == wanted.subjects and _owned(binding.metadata, machine)


def _owned(metadata: KubeObjectMeta, machine: Machine) -> bool:
    return [owner.uid for owner in metadata.owner_references] == [machine.metadata.uid]


def _head(kind: str, machine: Machine) -> dict[str, Any]:
    owner = {"apiVersion": machine.api_version, "kind": machine.kind}
    owner |= {"name": machine.metadata.name, "uid": machine.metadata.uid}
    name = agent_user(machine.metadata.name)
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": COMPONENTS, "ownerReferences": [owner]},
    }
