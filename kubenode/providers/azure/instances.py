"""Virtual machines of Azure for Machines, each created and deleted with its network card and disk.

One PUT creates all three, and their deleteOption ends the other two with the machine. The resource
manager has no client token. Instead the machine has the name of its Node, which is unique in a
resource group, and is created only if no machine has that name. A tag holds the token.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from azure.core import MatchConditions
from azure.core import exceptions as sdk
from azure.core.credentials import TokenCredential
from azure.mgmt.compute import ComputeManagementClient

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers import ids
from kubenode.providers.azure.errors import NAME, NO_CAPACITY, NOT_OURS
from kubenode.providers.azure.errors import explain as explain_kind
from kubenode.providers.azure.orders import request
from kubenode.providers.azure.power import compute_client
from kubenode.providers.class_configs import AzureConfig
from kubenode.providers.errors import NoSuchMachine, ProviderError
from kubenode.providers.instances import (
    CLUSTER_TAG,
    TOKEN_TAG,
    Deletion,
    ErrorCode,
    Instance,
    InstanceError,
    InstanceOrder,
    InstanceState,
    several,
)
from kubenode.providers.messages import plain
from kubenode.providers.settings import AzureSettings
from kubenode.providers.threads import Once, still_wanted

PASSING = {"creating": InstanceState.PENDING, "deleting": InstanceState.ENDING}
"""Instance state by provisioning state, for those that pass. "Failed" is not among them: a machine
whose change failed may run as before.
"""
POWER = {
    "PowerState/deallocated": InstanceState.STOPPED,
    "PowerState/deallocating": InstanceState.STOPPED,
    "PowerState/running": InstanceState.RUNNING,
    "PowerState/starting": InstanceState.PENDING,
    "PowerState/stopped": InstanceState.STOPPED,
    "PowerState/stopping": InstanceState.STOPPED,
}
NO_ROOM = NO_CAPACITY | {"QuotaExceeded", "SubnetIsFull", "PrivateIPAddressesExhausted"}
MISSING = frozenset({
    "ImageNotFound",
    "InvalidResourceReference",
    "NotFound",
    "PlatformImageNotFound",
    "ResourceGroupNotFound",
    "ResourceNotFound",
})  # fmt: skip
OPERATIONS = {
    MachineOperationType.REDEPLOY: "begin_redeploy",
    MachineOperationType.REIMAGE: "begin_reimage",
}


class AzureInstances:
    """Instances of one subscription.

    `credential`: the default credential chain of the SDK if None.
    """

    provider = NAME
    operations = frozenset(OPERATIONS)

    def __init__(self, settings: AzureSettings, credential: TokenCredential | None = None) -> None:
        self._settings = settings
        self._client = Once(lambda: compute_client(settings, credential))

    def owns(self, provider_id: str) -> bool:
        try:
            vm_id = ids.azure(provider_id)
        except ids.BadID:
            return False
        ours = vm_id.subscription.lower() == self._settings.subscription.lower()
        return ours and not vm_id.scale_set

    def create(self, order: InstanceOrder) -> Instance:
        group = AzureConfig.model_validate(dict(order.config)).resource_group
        wanted = request(order)
        if existing := self._named(group, order.name):
            return self._ordered(existing, order)
        still_wanted(NAME)
        try:
            made = self._machines.begin_create_or_update(
                group,
                order.name,
                wanted,
                match_condition=MatchConditions.IfMissing,
                polling=False,
            ).result()
        except sdk.ResourceExistsError:
            existing = self._named(group, order.name)
            if existing is None:
                raise
            return self._ordered(existing, order)
        return self._ordered(made, order)

    def get(self, provider_id: str) -> Instance | None:
        wanted = ids.azure(provider_id)
        described = self._named(wanted.group, wanted.name)
        return None if described is None else self._instance(described)

    def find(self, cluster: str, token: str) -> Instance | None:
        instances = [instance for instance in self.list(cluster) if instance.token == token]
        if len(instances) > 1:
            raise several(NAME, token, [instance.provider_id for instance in instances])
        return instances[0] if instances else None

    def delete(self, provider_id: str, cluster: str) -> Deletion:
        instance = self.get(provider_id)
        if instance is None:
            return Deletion.GONE
        self._checked(instance, cluster)
        if instance.state is not InstanceState.ENDING:
            wanted = ids.azure(provider_id)
            still_wanted(NAME)
            self._machines.begin_delete(wanted.group, wanted.name, polling=False)
        return Deletion.IN_PROGRESS

    def list(self, cluster: str) -> Sequence[Instance]:
        """Read the whole subscription for the cluster's instances: the API has no tag filter."""
        instances = (self._instance(entry) for entry in self._machines.list_all())
        return [entry for entry in instances if entry.cluster == cluster]

    def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        instance, wanted = self.get(provider_id), ids.azure(provider_id)
        if instance is None:
            raise NoSuchMachine(NAME, f"no machine {wanted.name} in {wanted.group}")
        self._checked(instance, cluster)
        ask: Callable[..., Any] = getattr(self._machines, OPERATIONS[operation])
        still_wanted(NAME)
        ask(wanted.group, wanted.name, polling=False)

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (client := self._client.made) is not None:
            client.close()

    @property
    def _machines(self) -> Any:
        client: ComputeManagementClient = self._client.get()
        return client.virtual_machines

    def _named(self, group: str, name: str) -> Mapping[str, Any] | None:
        try:
            described: Mapping[str, Any] = self._machines.get(group, name, expand="instanceView")
        except sdk.ResourceNotFoundError as error:
            if getattr(error.error, "code", None) in NOT_OURS:
                raise
            return None
        if str(described.get("name") or "").lower() != name.lower():
            message = f"asked for {name}, Azure answers {described.get('name')!r}"
            raise InstanceError(NAME, ErrorCode.INTERNAL, message)
        return described

    def _ordered(self, described: Mapping[str, Any], order: InstanceOrder) -> Instance:
        """Return the machine that has the ordered name, if it was created with the ordered token.

        Otherwise raises InstanceError. FAILED_PRECONDITION: it is being deleted. ABORTED: another
        machine of that name is being deleted. ALREADY_EXISTS: another machine has the name.
        """
        instance = self._instance(described)
        same = (instance.cluster, instance.token) == (order.cluster, order.token)
        match same, instance.state is InstanceState.ENDING:
            case True, False:
                return instance
            case True, True:
                message = f"{order.name}, made with token {order.token}, is being deleted"
                raise InstanceError(NAME, ErrorCode.FAILED_PRECONDITION, message)
            case False, True:
                message = f"another machine {order.name} is still being deleted"
                raise InstanceError(NAME, ErrorCode.ABORTED, message)
            case _:
                message = (
                    f"a machine {order.name} is there and was not made with token {order.token}"
                )
                raise InstanceError(NAME, ErrorCode.ALREADY_EXISTS, message)

    def _checked(self, instance: Instance, cluster: str) -> None:
        if instance.cluster != cluster:
            message = f"{instance.provider_id} was not made for cluster {cluster}: it is left alone"
            raise InstanceError(NAME, ErrorCode.FAILED_PRECONDITION, message)

    def _instance(self, described: Mapping[str, Any]) -> Instance:
        tags = {str(key): str(value) for key, value in (described.get("tags") or {}).items()}
        about = described.get("properties") or {}
        created = about.get("timeCreated")
        state, raw = _state(about)
        return Instance(
            provider_id=str(_canonical(str(described["id"]))),
            token=tags.get(TOKEN_TAG, ""),
            cluster=tags.get(CLUSTER_TAG, ""),
            state=state,
            raw=raw,
            created_at=datetime.fromisoformat(str(created)) if created else None,
            tags=tags,
        )


def _canonical(resource: str) -> ids.AzureVM:
    """Parse a resource ID as the cloud controller manager does: group name in lower case."""
    vm_id = ids.azure(f"azure://{resource}")
    return replace(vm_id, group=vm_id.group.lower())


def _state(about: Mapping[str, Any]) -> tuple[InstanceState, str]:
    """Return the instance's state, and Azure's own text for it.

    The provisioning state counts while the machine is created or deleted, else the power state.
    Lists have no power state; the result is then UNKNOWN.
    """
    provisioning = str(about.get("provisioningState") or "")
    statuses = (about.get("instanceView") or {}).get("statuses") or ()
    codes = [str(status.get("code", "")) for status in statuses]
    if (passing := PASSING.get(provisioning.lower())) is not None:
        return passing, provisioning
    known = [POWER[code] for code in codes if code in POWER]
    if len(known) == 1:
        return known[0], ", ".join(codes)
    if provisioning.lower() == "failed" and codes and not known:
        messages = (str(s.get("message") or "") for s in statuses if "failed" in s.get("code", ""))
        return InstanceState.FAILED, plain(" ".join([provisioning, *messages]))
    return InstanceState.UNKNOWN, ", ".join(codes) or provisioning


def explain(error: Exception) -> ProviderError | None:
    """Translate an error as `azure_errors` does; InstanceError where the code says more."""
    kind = explain_kind(error)
    if kind is None or not isinstance(error, sdk.AzureError):
        return kind
    code = _meaning(error)
    return kind if code is None else InstanceError(NAME, code, kind.message)


def _meaning(error: sdk.AzureError) -> ErrorCode | None:
    if isinstance(error, sdk.ClientAuthenticationError):
        return ErrorCode.UNAUTHENTICATED
    if not isinstance(error, sdk.HttpResponseError):
        return None
    code, status = str(getattr(error.error, "code", None) or ""), error.status_code
    quota = code == "OperationNotAllowed" and "quota" in str(error.message).lower()
    if code in NO_ROOM or quota:
        return ErrorCode.RESOURCE_EXHAUSTED
    if code in MISSING:
        return ErrorCode.NOT_FOUND
    if status == 412:
        return ErrorCode.ALREADY_EXISTS
    if status == 400 and code != "OperationNotAllowed":
        return ErrorCode.INVALID_ARGUMENT
    return None
