"""Access to the instances of Machines at their providers, with pacing and backoff.

Only the time of the next request and the number of failures are kept in memory. After a restart the
provider is asked at once, which is harmless. Client token and provider ID are in the Machine.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from kubenode.api.v1alpha1 import Machine, MachineClass
from kubenode.api.v1alpha1.machineclass import MachineClassSpec
from kubenode.api.v1alpha1.machinework import MachineOperation
from kubenode.providers.instances import (
    ErrorCode,
    Instance,
    InstanceError,
    InstanceOrder,
    Instances,
    InstanceState,
    On,
    next_try,
)
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import DisruptionGuard, stored
from kubenode.runtime.disruption.request import ActRefused
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import structs
from kubenode.runtime.kube.paths import resource
from kubenode.runtime.rate import TokenBucket
from machine.bootstrap.tokens import Tokens
from machine.hostimport.cloudinit import user_data
from machine.hostimport.join_settings import Joining
from machine.machine.leave import deletion_request, live_target, operation_request
from machine.machine.model import (
    RESYNC,
    SOON,
    ActResult,
    InstanceObservation,
    InstanceRequestState,
    MachineAct,
    MachineObservation,
)
from machine.site_settings import Provisioning

log = logging.getLogger(__name__)

OWN_NAMESPACE = "kubenode-system"
"""Namespace of the Secrets with user data."""
USER_DATA = "userData"
"""Key of the Secret that a class's userDataRef names."""
TOKEN = timedelta(seconds=1)
"""Interval of retries until the Secret of an issued bootstrap token exists. No watch reports it."""
ENDING = timedelta(seconds=5)
"""Interval of requests about an instance that is being deleted."""


class _UserDataSecret(msgspec.Struct, gc=False):
    data: dict[str, bytes] = {}


_decode = structs(_UserDataSecret)


@dataclass(slots=True)
class _InstanceRecord:
    """The last answer about an instance.

    due: monotonic time until which the answer is reused.
    failures: number of consecutive failures.
    """

    uid: str
    observation: InstanceObservation
    due: float
    failures: int = 0


@dataclass(slots=True)
class _Tried:
    """Failures of one operation.

    due: monotonic time before which it is not retried.
    """

    id: str
    failures: int = 0
    due: float = 0.0


class InstanceAccess:
    """Access to the instances of Machines.

    frozen: returns why nothing may be deleted now, "" if it may.
    classes: returns a MachineClass by name.
    guard: checks the permit before an instance is deleted or operated.
    """

    def __init__(
        self,
        provisioning: Provisioning,
        kube: Kube,
        classes: Callable[[str], MachineClass | None],
        frozen: Callable[[], str],
        clock: Clock,
        guard: DisruptionGuard,
    ) -> None:
        self._guard = guard
        self._provisioning, self._kube, self._clock = provisioning, kube, clock
        self._classes, self._frozen, self._tokens = classes, frozen, Tokens(kube)
        self._records: dict[str, _InstanceRecord] = {}
        self._tried: dict[str, _Tried] = {}
        self._paces: dict[str, TokenBucket] = {}

    def forget(self, name: str) -> None:
        self._records.pop(name, None)
        self._tried.pop(name, None)

    async def observe(self, machine: Machine) -> InstanceObservation:
        """Return the provider's answer, requested again when it is time."""
        name, spec = machine.metadata.name, machine.spec
        token = _token(machine)
        if not token and not spec.provider_id:
            return InstanceObservation()
        record = self._records.get(name)
        if record is not None and record.uid == machine.metadata.uid:
            remaining = record.due - self._clock.monotonic()
            if remaining > 0:
                return replace(record.observation, again=timedelta(seconds=remaining))
        try:
            provider = self._provider(machine)
            instance = (
                await provider.get(spec.provider_id)
                if spec.provider_id
                else await provider.find(self._provisioning.cluster, token)
            )
        except InstanceError as error:
            return self._failed(machine, error, mine=False)
        return self._keep(
            machine, _to_observation(instance), _compute_query_delay(machine, instance)
        )

    async def create(self, machine: Machine) -> ActResult:
        """Request the instance of the Machine's client token. `look` then returns the outcome.

        Act NONE in the result, here and below, means that nothing was requested yet.
        """
        machine_class = self._classes(machine.spec.class_ref)
        if (
            machine_class is None
            or (wait := self._paced(machine.spec.class_ref, machine_class.spec)) is not None
        ):
            again = SOON if machine_class is None else wait
            return ActResult(again=again)
        try:
            data = await self._user_data(machine, machine_class.spec)
            if data is None:
                return ActResult(again=TOKEN)
            order = InstanceOrder(
                _token(machine),
                self._provisioning.cluster,
                machine.metadata.name,
                machine.node_name,
                machine_class.spec.config,
                data,
            )
            made = await self._provider(machine).create(order)
        except InstanceError as error:
            self._failed(machine, error, mine=True)
            return ActResult(MachineAct.CREATE, code=error.code, message=error.message)
        self._keep(machine, _to_observation(made), SOON)
        return ActResult(MachineAct.CREATE)

    async def terminate(self, observation: MachineObservation) -> ActResult:
        """Request the deletion of the instance. The next `look` tells whether it is gone."""
        machine = observation.machine
        if self._frozen():
            return ActResult(again=ENDING)
        request = deletion_request(observation)
        try:
            provider = self._provider(machine)
            await self._guard.perform(
                request,
                intent=stored,  # the deletion itself, and the stage in its status
                target=lambda: live_target(self._kube, observation, request),
                act=lambda: provider.delete(machine.spec.provider_id, self._provisioning.cluster),
            )
        except ActRefused as refused:
            why = InstanceObservation(
                InstanceRequestState.ERROR,
                code=ErrorCode.FAILED_PRECONDITION,
                message=str(refused)[:800],
            )
            self._keep(machine, why, 2 * ENDING)  # so that the next `look` reports it
            return ActResult(again=ENDING)
        except InstanceError as error:
            again = self._failed(machine, error, mine=False).again
            return ActResult(
                MachineAct.TERMINATE, code=error.code, message=error.message, again=again
            )
        self._keep(machine, InstanceObservation(), ENDING)
        return ActResult(MachineAct.TERMINATE, again=ENDING)

    async def operate(self, observation: MachineObservation, wanted: MachineOperation) -> ActResult:
        """Request the operation under its own ID, so that a retry is idempotent."""
        machine, name = observation.machine, observation.machine.metadata.name
        tried = self._tried.get(name)
        if tried is None or tried.id != wanted.id:
            tried = self._tried[name] = _Tried(wanted.id)
        if (remaining := tried.due - self._clock.monotonic()) > 0:
            return ActResult(again=timedelta(seconds=remaining))
        try:
            provider = self._provider(machine)
            if wanted.type not in provider.operations:
                message = f"it has no {wanted.type}"
                raise InstanceError(provider.name, ErrorCode.UNIMPLEMENTED, message)
            cluster, request = self._provisioning.cluster, operation_request(observation)
            await self._guard.perform(
                request,
                intent=stored,  # `lastOperation` says Running
                target=lambda: live_target(self._kube, observation, request),
                act=lambda: provider.operate(
                    machine.spec.provider_id, cluster, wanted.type, wanted.id
                ),
            )
        except ActRefused as refused:
            log.warning("operation is refused", extra={"machine": name, "why": str(refused)})
            return ActResult(again=ENDING)
        except InstanceError as error:
            tried.failures += 1
            following = next_try(error.code, tried.failures, error.after)
            final, again = following.on is On.NOTHING, following.after
            if again is not None:
                tried.due = self._clock.monotonic() + again.total_seconds()
            return ActResult(
                MachineAct.OPERATE, code=error.code, message=error.message, final=final, again=again
            )
        self.forget(name)
        return ActResult(MachineAct.OPERATE)

    def _provider(self, machine: Machine) -> Instances:
        """Return the provider of the class; if the class is gone, the provider that owns the ID.

        Raises InstanceError.
        """
        machine_class, provider_id = self._classes(machine.spec.class_ref), machine.spec.provider_id
        if machine_class is not None:
            return self._provisioning.instances.of(
                machine_class.spec.provider, machine_class.spec.credentials_ref
            )
        owner = self._provisioning.instances.owner(provider_id) if provider_id else None
        if owner is None:
            message = (
                f"MachineClass {machine.spec.class_ref} is not there to say whose machine it is"
            )
            raise InstanceError("provider", ErrorCode.UNAUTHENTICATED, message)
        return owner

    def _failed(self, machine: Machine, error: InstanceError, *, mine: bool) -> InstanceObservation:
        """Record a failure and return it with the time of the next request.

        mine: the failure of a creation and not of a query. Only that can be final.
        """
        record = self._records.get(machine.metadata.name)
        failures = 1 + (record.failures if record and record.uid == machine.metadata.uid else 0)
        following = next_try(error.code, failures, error.after)
        final = mine and following.on is On.NOTHING
        observation = InstanceObservation(
            InstanceRequestState.ERROR, code=error.code, message=error.message[:800], final=final
        )
        return self._keep(machine, observation, following.after or RESYNC, failures)

    def _keep(
        self, machine: Machine, observation: InstanceObservation, wait: timedelta, failures: int = 0
    ) -> InstanceObservation:
        due = self._clock.monotonic() + wait.total_seconds()
        self._records[machine.metadata.name] = _InstanceRecord(
            machine.metadata.uid, observation, due, failures
        )
        return replace(observation, again=wait)

    def _paced(self, name: str, spec: MachineClassSpec) -> timedelta | None:
        """Return the time to wait before the class may create another instance, None for now."""
        per_minute = spec.limits.creates_per_minute
        pace = self._paces.get(name)
        if pace is None or pace.rate != per_minute / 60:
            pace = self._paces[name] = TokenBucket(per_minute / 60, per_minute, self._clock)
        return None if pace.allow() else timedelta(seconds=60 / per_minute)

    async def _user_data(self, machine: Machine, spec: MachineClassSpec) -> str | None:
        """Return the user data for the first boot, None until the bootstrap token exists.

        Raises InstanceError UNAUTHENTICATED for what a person can correct; such an error is not
        final.
        """
        bootstrap = machine.status.bootstrap
        token = await self._tokens.read(bootstrap.token_id) if bootstrap else None
        if token is None:
            return None
        site, own = self._provisioning, await self._own(spec.user_data_ref)
        joining = Joining(machine.metadata.name, machine.node_name, site.server, site.ca)
        try:
            return user_data(joining, token.text, site.download, own)
        except ValueError as error:
            raise InstanceError("user data", ErrorCode.UNAUTHENTICATED, str(error)) from error

    async def _own(self, ref: str) -> str:
        """Return the user data of the class's Secret, "" if the class names none. Raises
        InstanceError.
        """
        if not ref:
            return ""
        path = resource("/api/v1", "secrets", namespace=OWN_NAMESPACE, name=ref)
        try:
            secret = await self._kube.get(path, _decode)
        except NotFound as error:
            message = f"Secret {OWN_NAMESPACE}/{ref}, which its class names, is not there: make it"
            raise InstanceError("user data", ErrorCode.UNAUTHENTICATED, message) from error
        return secret.data.get(USER_DATA, b"").decode(errors="replace")


def _token(machine: Machine) -> str:
    provisioning = machine.status.provisioning
    return "" if provisioning is None else provisioning.client_token


def _to_observation(instance: Instance | None) -> InstanceObservation:
    return InstanceObservation(
        InstanceRequestState.ABSENT if instance is None else InstanceRequestState.PRESENT, instance
    )


def _compute_query_delay(machine: Machine, instance: Instance | None) -> timedelta:
    """Return the time until the next request: long for a running instance, short otherwise."""
    if machine.metadata.deletion_timestamp is not None:
        return ENDING
    runs = instance is not None and instance.state is InstanceState.RUNNING
    return RESYNC if runs and machine.spec.provider_id else SOON
