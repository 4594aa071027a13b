"""ECS instances, created and deleted for Machines.

RunInstances takes our token as its ClientToken: a repeated request creates no second instance. A
caller without the right to describe instances gets an empty list, so an instance counts as absent
only after a dry run has proved that we have that right.
"""

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from alibabacloud_credentials.client import Client as Credentials
from alibabacloud_ecs20140526 import models as ecs
from alibabacloud_ecs20140526.client import Client as EcsClient
from alibabacloud_tea_openapi.exceptions import AlibabaCloudException, ClientException

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers import ids
from kubenode.providers.alibaba.errors import NAME, UNKNOWN_MACHINE
from kubenode.providers.alibaba.errors import explain as explain_kind
from kubenode.providers.alibaba.power import ALLOWED, ecs_client
from kubenode.providers.class_configs import AlibabaConfig
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
from kubenode.providers.settings import AlibabaSettings
from kubenode.providers.threads import Once, still_wanted

STATES = {
    "Pending": InstanceState.PENDING,
    "Starting": InstanceState.PENDING,
    "Running": InstanceState.RUNNING,
    "Stopping": InstanceState.STOPPED,
    "Stopped": InstanceState.STOPPED,
}
"""Instance state by the Status of an instance. A released instance is not found."""
MOST_USER_DATA = 32768
"""Bytes, before base64 encoding."""
PAGE = 100
MOST_PAGES = 1000
IN_PROGRESS = ("LastTokenProcessing", "IdempotentProcessing")
MISMATCH = ("IdempotentParameterMismatch", "IdempotenceParamNotMatch")
NO_ROOM = (
    "InvalidVSwitchId.IpNotEnough",
    "OperationDenied.NoStock",
    "OperationDenied.QuotaExceed",
    "QuotaExceed",
    "QuotaExceeded",
)
UNAUTHENTICATED = (
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidAccessKeySecret",
    "InvalidCredentials",
    "InvalidSecurityToken",
    "MissingAccessKeyId",
    "MissingSecurityToken",
    "SignatureDoesNotMatch",
)


class AlibabaInstances:
    """Instances of one region of one account.

    `credentials`: the default credential chain of the SDK if None.
    """

    provider = NAME
    operations = frozenset({MachineOperationType.REDEPLOY})

    def __init__(self, settings: AlibabaSettings, credentials: Credentials | None = None) -> None:
        self._region = settings.region
        self._client = Once(lambda: ecs_client(settings, credentials))

    def owns(self, provider_id: str) -> bool:
        try:
            return ids.ecs(provider_id).region == self._region
        except ids.BadID:
            return False

    def create(self, order: InstanceOrder) -> Instance:
        wanted = _request(self._region, order)
        if existing := self.find(order.cluster, order.token):
            return existing
        still_wanted(NAME)
        try:
            made = self._ecs.run_instances(wanted).body
        except AlibabaCloudException as error:
            if not _is(str(error.code), (*MISMATCH, *IN_PROGRESS)):
                raise
            # An earlier request had this token, with other parameters or a moment ago. If it
            # created an instance, the tag is visible soon.
            if existing := self.find(order.cluster, order.token):
                return existing
            message = f"{error.code}: {order.token} was asked for before and is not seen yet"
            raise InstanceError(NAME, ErrorCode.ABORTED, message) from error
        names = list((made.instance_id_sets and made.instance_id_sets.instance_id_set) or ())
        if len(names) != 1:
            raise InstanceError(
                NAME, ErrorCode.UNKNOWN, f"ECS names {len(names)} instances for one"
            )
        return Instance(
            provider_id=str(ids.Ecs(self._region, names[0])),
            token=order.token,
            cluster=order.cluster,
            state=InstanceState.PENDING,
            raw="Pending",
            tags={tag.key: tag.value for tag in wanted.tag},
        )

    def get(self, provider_id: str) -> Instance | None:
        wanted = ids.ecs(provider_id).instance
        instances = self._pages(instance_ids=f'["{wanted}"]')
        if instances and instances[0].instance_id != wanted:
            message = f"asked for {wanted}, ECS answers {instances[0].instance_id}"
            raise InstanceError(NAME, ErrorCode.INTERNAL, message)
        return self._instance(instances[0]) if instances else None

    def find(self, cluster: str, token: str) -> Instance | None:
        instances = [
            self._instance(entry)
            for entry in self._pages(
                tag=_build_tag_filters({CLUSTER_TAG: cluster, TOKEN_TAG: token})
            )
        ]
        if len(instances) > 1:
            raise several(NAME, token, [entry.provider_id for entry in instances])
        return instances[0] if instances else None

    def delete(self, provider_id: str, cluster: str) -> Deletion:
        instance = self.get(provider_id)
        if instance is None:
            return Deletion.GONE
        self._checked(instance, cluster)
        still_wanted(NAME)
        try:
            self._ecs.delete_instance(
                ecs.DeleteInstanceRequest(
                    instance_id=ids.ecs(provider_id).instance, force=True, force_stop=True
                )
            )
        except AlibabaCloudException as error:
            if str(error.code) in UNKNOWN_MACHINE:
                return Deletion.GONE
            raise
        return Deletion.IN_PROGRESS

    def list(self, cluster: str) -> Sequence[Instance]:
        return [
            self._instance(entry)
            for entry in self._pages(tag=_build_tag_filters({CLUSTER_TAG: cluster}))
        ]

    def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        instance, wanted = self.get(provider_id), ids.ecs(provider_id).instance
        if instance is None:
            raise NoSuchMachine(NAME, f"no instance {wanted} in {self._region}")
        self._checked(instance, cluster)
        still_wanted(NAME)
        self._ecs.redeploy_instance(
            ecs.RedeployInstanceRequest(instance_id=wanted, force_stop=True)
        )

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        """Do nothing: the SDK keeps its connections for the whole process."""

    @property
    def _ecs(self) -> EcsClient:
        return self._client.get()

    def _pages(self, **which: Any) -> "Sequence[Any]":
        """List all instances that match `which`. An empty list proves that we may describe them."""
        instances: list[Any] = []
        after = ""
        for _ in range(MOST_PAGES):
            query = ecs.DescribeInstancesRequest(
                region_id=self._region, max_results=PAGE, next_token=after or None, **which
            )
            body = self._ecs.describe_instances(query).body
            instances += (body.instances.instance if body.instances else None) or ()
            after = body.next_token or ""
            if not after:
                break
        else:
            message = f"more than {MOST_PAGES * PAGE} instances: nobody has so many"
            raise InstanceError(NAME, ErrorCode.INTERNAL, message)
        if not instances:
            self._may_describe(which)
        return instances

    def _may_describe(self, which: "dict[str, Any]") -> None:
        """Check by a dry run that we may describe instances. Raises the error of the dry run."""
        query = ecs.DescribeInstancesRequest(region_id=self._region, dry_run=True, **which)
        try:
            self._ecs.describe_instances(query)
        except AlibabaCloudException as error:
            if error.code != ALLOWED:
                raise

    def _checked(self, instance: Instance, cluster: str) -> None:
        if instance.cluster != cluster:
            message = f"{instance.provider_id} was not made for cluster {cluster}: it is left alone"
            raise InstanceError(NAME, ErrorCode.FAILED_PRECONDITION, message)

    def _instance(self, described: Any) -> Instance:
        listed = (described.tags.tag if described.tags else None) or ()
        tags = {str(tag.tag_key): str(tag.tag_value or "") for tag in listed}
        inside = described.vpc_attributes.private_ip_address if described.vpc_attributes else None
        created, raw = described.creation_time, str(described.status)
        return Instance(
            provider_id=str(ids.Ecs(self._region, described.instance_id)),
            token=tags.get(TOKEN_TAG, ""),
            cluster=tags.get(CLUSTER_TAG, ""),
            state=STATES.get(raw, InstanceState.UNKNOWN),
            raw=raw,
            addresses=tuple((inside.ip_address if inside else None) or ()),
            created_at=datetime.fromisoformat(created) if created else None,
            tags=tags,
        )


def explain(error: Exception) -> ProviderError | None:
    """Translate an error as `alibaba_errors` does; InstanceError where the code says more."""
    kind = explain_kind(error)
    if kind is None or not isinstance(error, AlibabaCloudException):
        return kind
    code = _meaning(error)
    return kind if code is None else InstanceError(NAME, code, kind.message)


def _meaning(error: AlibabaCloudException) -> ErrorCode | None:
    code = str(error.code or "")
    if isinstance(error, ClientException) and not error.status_code:
        return ErrorCode.UNAUTHENTICATED
    if _is(code, UNAUTHENTICATED):
        return ErrorCode.UNAUTHENTICATED
    if _is(code, NO_ROOM):
        return ErrorCode.RESOURCE_EXHAUSTED
    if _is(code, (*IN_PROGRESS, *MISMATCH)):
        return ErrorCode.ABORTED
    if code.endswith(".NotFound"):
        return ErrorCode.NOT_FOUND
    if code.startswith(("Invalid", "Missing")):
        return ErrorCode.INVALID_ARGUMENT
    return None


def _is(code: str, known: tuple[str, ...]) -> bool:
    return any(code == prefix or code.startswith(f"{prefix}.") for prefix in known)


def _build_tag_filters(tags: dict[str, str]) -> list[Any]:
    return [ecs.DescribeInstancesRequestTag(key=key, value=value) for key, value in tags.items()]


def _request(region: str, order: InstanceOrder) -> Any:
    """Build the request of RunInstances. Raises InstanceError if the user data is too long."""
    config = AlibabaConfig.model_validate(dict(order.config))
    if (size := len(order.user_data.encode())) > MOST_USER_DATA:
        message = f"user data of {size} bytes: ECS takes {MOST_USER_DATA}; shorten the class's"
        raise InstanceError(NAME, ErrorCode.INVALID_ARGUMENT, message)
    return ecs.RunInstancesRequest(
        region_id=region,
        client_token=order.token,
        amount=1,
        min_amount=1,
        instance_name=order.name,
        host_name=order.name,
        image_id=config.image_id,
        instance_type=config.instance_type,
        instance_charge_type="PostPaid",
        v_switch_id=config.v_switch_id,
        security_group_ids=config.security_group_ids,
        ram_role_name=config.ram_role or None,
        key_pair_name=config.key_pair or None,
        # User data holds a secret: tokens and the hop limit let only the host itself read it.
        http_endpoint="enabled",
        http_tokens="required",
        http_put_response_hop_limit=1,
        system_disk=ecs.RunInstancesRequestSystemDisk(
            category=config.disk_category, size=str(config.disk_size_gib)
        ),
        user_data=base64.b64encode(order.user_data.encode()).decode(),
        tag=[
            ecs.RunInstancesRequestTag(key=key, value=value)
            for key, value in {**config.tags, **order.tags}.items()
        ],
    )
