"""Let the agent of each Machine read the Secrets of its own components.

The garbage collector deletes the Role and the RoleBinding of a Machine that is gone, so the
operator needs no right to delete them.
"""

from collections.abc import Mapping
from typing import Any

from kubenode.api.v1alpha1 import Machine, MachineComponent
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import structs
from kubenode.runtime.kube.paths import resource
from machine.component.controller import OF_COMPONENT
from machine.ground import SharedCaches
from machine.names import AGENT_USER, COMPONENTS, agent_user
from machine.secretaccess.step import (
    RBAC_GROUP,
    AccessBinding,
    AccessRole,
    build_binding,
    build_role,
    is_binding_current,
    is_role_current,
    list_granted,
    list_present,
    list_secrets,
)

ROLES, BINDINGS = "roles", "rolebindings"


class SecretAccess:
    """Controller of the rights. It needs the index OF_COMPONENT, which MachineComponents adds."""

    def __init__(self, ground: SharedCaches) -> None:
        self._ground = ground
        make, kube, clock = ground.informer, ground.kube, ground.clock
        self.roles: Informer[AccessRole] = make(
            kube, _path(ROLES), structs(AccessRole), clock=clock, name="roles of agents"
        )
        self.bindings: Informer[AccessBinding] = make(
            kube, _path(BINDINGS), structs(AccessBinding), clock=clock, name="bindings of agents"
        )
        self.controller = ground.controller("secretaccess", self.reconcile)
        self.controller.watch(ground.machines, _machine_changed)
        self.controller.watch(ground.components, self._component_changed)
        self.controller.watch(self.roles, _rights_changed)
        self.controller.watch(self.bindings, _rights_changed)

    async def reconcile(self, name: str) -> Result:
        machine = self._ground.machines.get(name)
        if machine is None:
            return DONE
        key = f"{COMPONENTS}/{agent_user(name)}"
        role, binding = self.roles.get(key), self.bindings.get(key)
        components = self._ground.components.cache
        secrets = list_secrets(machine, components)
        if not list_present(machine) <= components.keys():
            secrets |= list_granted(role)  # nothing is revoked while a component is unknown
        if role is None and not secrets:
            return DONE
        if role is None or not is_role_current(role, machine, secrets):
            await self._apply(ROLES, build_role(machine, secrets), exists=role is not None)
        if binding is None or not is_binding_current(binding, machine):
            await self._apply(BINDINGS, build_binding(machine), exists=binding is not None)
        return DONE

    async def _apply(self, plural: str, body: Mapping[str, Any], *, exists: bool) -> None:
        self._ground.fence.check()
        if exists:
            await self._ground.kube.patch(_path(plural, body["metadata"]["name"]), body)
            return
        try:
            await self._ground.kube.create(_path(plural), body)
        except AlreadyExists:
            return  # the informer reports it soon, and then it is compared

    def _component_changed(
        self, key: str, old: MachineComponent | None, new: MachineComponent | None
    ) -> list[str]:
        if old is not None and new is not None:
            return []  # the spec is immutable
        return [m.metadata.name for m in self._ground.machines.by(OF_COMPONENT, key)]


def _machine_changed(key: str, old: Machine | None, new: Machine | None) -> tuple[str, ...]:
    if old is not None and new is not None and old is not new:
        unchanged = old.metadata.uid == new.metadata.uid
        if unchanged and old.spec.components == new.spec.components:
            return ()
    return (key,)


def _rights_changed(key: str, _old: object, _new: object) -> tuple[str, ...]:
    name = key.removeprefix(f"{COMPONENTS}/")
    return (name.removeprefix(AGENT_USER),) if name.startswith(AGENT_USER) else ()


def _path(plural: str, name: str | None = None) -> str:
    return resource(f"/apis/{RBAC_GROUP}/v1", plural, namespace=COMPONENTS, name=name)
