"""Instances of provider `local`, created and deleted by the command that also switches them.

    COMMAND... create NAME TOKEN          reads the order on standard input, prints the instance
    COMMAND... get MACHINE                prints the instance
    COMMAND... delete MACHINE             prints `gone` or `in-progress`
    COMMAND... list CLUSTER               prints a list of all instances of the cluster
    COMMAND... redeploy MACHINE REQUEST   boots it on other hardware with its disks unchanged
    COMMAND... reimage MACHINE REQUEST    installs a new system, which runs its user data again

The order is JSON: token, cluster, machine, name, config, userData. An instance is JSON: id
(MACHINE, with NAME as its last part), token, cluster, machine, state, addresses, createdAt. The
command must be idempotent: one instance for a token, one operation for a request. The exit code
says how a call ended (`ENDS`); `get` of a missing instance exits with 68. After any other code, or
a timeout, it is unknown whether the call took effect.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers.class_configs import config_problems
from kubenode.providers.errors import ProviderError
from kubenode.providers.instance_errors import coded
from kubenode.providers.instances import (
    CLUSTER_TAG,
    MACHINE_TAG,
    TOKEN_TAG,
    Deletion,
    ErrorCode,
    Instance,
    InstanceError,
    InstanceOrder,
    InstanceState,
    several,
)
from kubenode.providers.local.commands import Ended, ProviderCommand
from kubenode.providers.local.power import NAME, PREFIX, TIMEOUT, machine_name
from kubenode.providers.messages import plain

T = TypeVar("T")

ENDS = {
    64: ErrorCode.UNIMPLEMENTED,
    65: ErrorCode.INVALID_ARGUMENT,
    68: ErrorCode.NOT_FOUND,
    69: ErrorCode.UNKNOWN,
    73: ErrorCode.RESOURCE_EXHAUSTED,
    75: ErrorCode.ABORTED,
    77: ErrorCode.PERMISSION_DENIED,
    78: ErrorCode.FAILED_PRECONDITION,
}
"""Error code by exit code, as in sysexits.h. 0 is success."""
VERBS = {MachineOperationType.REDEPLOY: "redeploy", MachineOperationType.REIMAGE: "reimage"}
"""A command that lacks one of them exits with 64."""
OUTPUT = 16 << 20
"""Bytes of a list. A longer list is an error and is not cut."""


class PrintedInstance(msgspec.Struct, rename="camel", frozen=True):
    """An instance as the command prints it."""

    id: str
    state: str
    token: str = ""
    cluster: str = ""
    machine: str = ""
    addresses: list[str] = []
    created_at: datetime | None = None


class LocalInstances:
    """Instances through the command.

    command: program and first arguments of each call, not interpreted by a shell
    name: of its entry in the providers file
    prefix: of the provider IDs that belong to it
    timeout: limit of one call
    """

    provider = NAME
    operations = frozenset(VERBS)

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str = "",
        prefix: str = PREFIX,
        timeout: timedelta = TIMEOUT,
    ) -> None:
        self.name = name or NAME
        self._command = ProviderCommand(NAME, command, timeout)
        self._prefix = prefix

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        return config_problems(NAME, config)

    def owns(self, provider_id: str) -> bool:
        return machine_name(provider_id, self._prefix) is not None

    async def create(self, order: InstanceOrder) -> Instance:
        if wrong := self.validate(order.config):
            raise self._error(ErrorCode.INVALID_ARGUMENT, f"config: {'; '.join(wrong)}")
        wanted = {
            "token": order.token,
            "cluster": order.cluster,
            "machine": order.machine,
            "name": order.name,
            "config": dict(order.config),
            "userData": order.user_data,
        }
        output = await self._run("create", order.name, order.token, stdin=json.dumps(wanted))
        made = self._instance(self._read(output, PrintedInstance))
        expected = (order.token, order.cluster, order.name)
        if (made.token, made.cluster, made.provider_id.rpartition("/")[2]) != expected:
            message = f"asked for {order.name} with token {order.token}, it made {made.provider_id}"
            raise self._error(ErrorCode.INTERNAL, f"{message} with token {made.token!r}")
        return made

    async def get(self, provider_id: str) -> Instance | None:
        name = self._machine(provider_id)
        ended = await self._ended("get", name)
        if ENDS.get(ended.code) is ErrorCode.NOT_FOUND:
            return None
        instance = self._instance(self._read(self._done(ended), PrintedInstance))
        if instance.provider_id != provider_id:
            message = f"asked for {provider_id}, the command answers {instance.provider_id}"
            raise self._error(ErrorCode.INTERNAL, message)
        return instance

    async def find(self, cluster: str, token: str) -> Instance | None:
        instances = [instance for instance in await self.list(cluster) if instance.token == token]
        if len(instances) > 1:
            raise several(self.name, token, [instance.provider_id for instance in instances])
        return instances[0] if instances else None

    async def delete(self, provider_id: str, cluster: str) -> Deletion:
        if not await self._ours(provider_id, cluster):
            return Deletion.GONE
        ended = await self._ended("delete", self._machine(provider_id), changes=True)
        if ENDS.get(ended.code) is ErrorCode.NOT_FOUND:
            return Deletion.GONE
        match self._done(ended):
            case "gone":
                return Deletion.GONE
            case "in-progress":
                return Deletion.IN_PROGRESS
            case output:
                message = f"delete printed {plain(output)!r}: it must be `gone` or `in-progress`"
                raise self._error(ErrorCode.UNKNOWN, message)

    async def list(self, cluster: str) -> Sequence[Instance]:
        output = await self._run("list", cluster)
        if len(output.encode()) >= OUTPUT:
            raise self._error(ErrorCode.INTERNAL, f"the list is longer than {OUTPUT} bytes")
        instances = [
            self._instance(entry) for entry in self._read(output, tuple[PrintedInstance, ...])
        ]
        return [entry for entry in instances if entry.cluster == cluster]

    async def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        if operation not in VERBS:
            raise self._error(ErrorCode.UNIMPLEMENTED, f"a command has no {operation} of a machine")
        if not await self._ours(provider_id, cluster):
            raise self._error(ErrorCode.NOT_FOUND, f"{provider_id} is not there")
        machine = self._machine(provider_id)
        self._done(await self._ended(VERBS[operation], machine, request, changes=True))

    async def close(self) -> None:
        """Do nothing: no connection stays open between calls."""

    async def _ours(self, provider_id: str, cluster: str) -> bool:
        """Return whether the instance exists. Raises InstanceError if it is another cluster's."""
        instance = await self.get(provider_id)
        if instance is not None and instance.cluster != cluster:
            message = f"{provider_id} was not made for cluster {cluster}: it is left alone"
            raise self._error(ErrorCode.FAILED_PRECONDITION, message)
        return instance is not None

    def _machine(self, provider_id: str) -> str:
        name = machine_name(provider_id, self._prefix)
        if name is None:
            message = f"providerID {provider_id[:100]!r} is not {self._prefix}PLACE/NODE"
            raise self._error(ErrorCode.INVALID_ARGUMENT, message)
        return name

    async def _run(self, *arguments: str, stdin: str = "") -> str:
        return self._done(await self._ended(*arguments, stdin=stdin, changes=bool(stdin)))

    async def _ended(self, *arguments: str, stdin: str = "", changes: bool = False) -> Ended:
        try:
            return await self._command.run(*arguments, stdin=stdin, output=OUTPUT)
        except ProviderError as error:
            raise coded(error, self.name, changes=changes) from error

    def _done(self, ended: Ended) -> str:
        if ended.code != 0:
            raise self._error(ENDS.get(ended.code, ErrorCode.UNKNOWN), ended.message)
        return ended.output

    def _read(self, output: str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(output, type=kind)
        except msgspec.MsgspecError as error:
            message = f"the command printed {plain(output)[:80]!r}: {plain(str(error))}"
            raise self._error(ErrorCode.UNKNOWN, message) from error

    def _instance(self, printed: PrintedInstance) -> Instance:
        provider_id = f"{self._prefix}{printed.id}"
        if not self.owns(provider_id):
            message = f"the command printed id {plain(printed.id)!r}: it must be PLACE/NODE"
            raise self._error(ErrorCode.UNKNOWN, message)
        states = {state.value.lower(): state for state in InstanceState}
        return Instance(
            provider_id=provider_id,
            token=printed.token,
            cluster=printed.cluster,
            state=states.get(printed.state.lower(), InstanceState.UNKNOWN),
            raw=plain(printed.state),
            addresses=tuple(printed.addresses),
            created_at=printed.created_at,
            tags={
                CLUSTER_TAG: printed.cluster,
                TOKEN_TAG: printed.token,
                MACHINE_TAG: printed.machine,
            },
        )

    def _error(self, code: ErrorCode, message: str) -> InstanceError:
        return InstanceError(self.name, code, message)
