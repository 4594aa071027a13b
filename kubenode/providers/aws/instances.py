"""EC2 instances, created and deleted for Machines.

RunInstances takes our token as its ClientToken: a repeated request creates no second instance. EC2
forgets the token after a day; from then on our tag identifies the instance.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore import exceptions as sdk

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers import ids
from kubenode.providers.aws.errors import NAME, NO_CREDENTIALS
from kubenode.providers.aws.errors import explain as explain_kind
from kubenode.providers.aws.power import boto_session, ec2_client
from kubenode.providers.class_configs import AwsConfig
from kubenode.providers.errors import ProviderError
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
from kubenode.providers.settings import AwsSettings
from kubenode.providers.threads import Once, still_wanted

if TYPE_CHECKING:  # stubs, of the development environment only
    from mypy_boto3_ec2 import EC2Client

STATES = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.STOPPED,
    "stopped": InstanceState.STOPPED,
    "shutting-down": InstanceState.ENDING,
}
ENDED = "terminated"
"""EC2 still describes a terminated instance for about an hour."""
MOST_USER_DATA = 16384
"""Bytes, before base64 encoding."""
PAGE = 500
MISMATCH = "IdempotentParameterMismatch"
UNKNOWN_INSTANCE = "InvalidInstanceID.NotFound"
UNAUTHENTICATED = frozenset({
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
})  # fmt: skip


class AwsInstances:
    """Instances of one region of one account."""

    provider = NAME
    operations: frozenset[MachineOperationType] = frozenset()

    def __init__(self, settings: AwsSettings) -> None:
        self._settings = settings
        self._client = Once(lambda: ec2_client(settings, boto_session(settings)))

    def owns(self, provider_id: str) -> bool:
        try:
            return ids.in_region(ids.ec2(provider_id).zone, self._settings.region)
        except ids.BadID:
            return False

    def create(self, order: InstanceOrder) -> Instance:
        request = _request(order)
        if existing := self._find_instance(order.cluster, order.token):
            return _alive(existing, order)
        still_wanted(NAME)
        try:
            answer = self._ec2.run_instances(**request)
        except sdk.ClientError as error:
            if _code(error) != MISMATCH:
                raise
            # An earlier request had this token with other parameters. If it created an instance,
            # the tag is visible soon.
            if existing := self._find_instance(order.cluster, order.token):
                return _alive(existing, order)
            message = f"{MISMATCH}: {order.token} was asked for before and is not seen yet"
            raise InstanceError(NAME, ErrorCode.ABORTED, message) from error
        return _alive(answer["Instances"][0], order)

    def get(self, provider_id: str) -> Instance | None:
        described = self._described(provider_id)
        return None if described is None or _ended(described) else _instance(described)

    def find(self, cluster: str, token: str) -> Instance | None:
        described = self._find_instance(cluster, token)
        return None if described is None or _ended(described) else _instance(described)

    def delete(self, provider_id: str, cluster: str) -> Deletion:
        described = self._described(provider_id)
        if described is None or _ended(described):
            return Deletion.GONE
        instance = _instance(described)
        if instance.cluster != cluster:
            raise _foreign(instance, cluster)
        if instance.state is not InstanceState.ENDING:
            still_wanted(NAME)
            self._ec2.terminate_instances(InstanceIds=[described["InstanceId"]])
        return Deletion.IN_PROGRESS

    def list(self, cluster: str) -> Sequence[Instance]:
        return [
            _instance(entry)
            for entry in self._all({f"tag:{CLUSTER_TAG}": cluster})
            if not _ended(entry)
        ]

    def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        raise InstanceError(NAME, ErrorCode.UNIMPLEMENTED, f"EC2 has no {operation} of an instance")

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (client := self._client.made) is not None:
            client.close()

    @property
    def _ec2(self) -> "EC2Client":
        return self._client.get()

    def _described(self, provider_id: str) -> Mapping[str, Any] | None:
        wanted = ids.ec2(provider_id).instance
        try:
            answer = self._ec2.describe_instances(InstanceIds=[wanted])
        except sdk.ClientError as error:
            if _code(error) == UNKNOWN_INSTANCE:
                return None
            raise
        instances = [i for r in answer["Reservations"] for i in r["Instances"]]
        if instances and instances[0]["InstanceId"] != wanted:
            message = f"asked for {wanted}, EC2 answers {instances[0]['InstanceId']}"
            raise InstanceError(NAME, ErrorCode.INTERNAL, message)
        return instances[0] if instances else None

    def _find_instance(self, cluster: str, token: str) -> Mapping[str, Any] | None:
        """Return the instance with this token: a living one, else one that has ended, else None.

        Raises InstanceError if several living ones carry it.
        """
        instances = self._all({f"tag:{CLUSTER_TAG}": cluster, f"tag:{TOKEN_TAG}": token})
        living = [entry for entry in instances if not _ended(entry)]
        if len(living) > 1:
            raise several(NAME, token, [str(entry["InstanceId"]) for entry in living])
        return next(iter([*living, *instances]), None)

    def _all(self, wanted: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
        pages = self._ec2.get_paginator("describe_instances").paginate(
            Filters=[{"Name": name, "Values": [value]} for name, value in wanted.items()],
            PaginationConfig={"PageSize": PAGE},
        )
        return [i for page in pages for r in page["Reservations"] for i in r["Instances"]]


def explain(error: Exception) -> ProviderError | None:
    """Translate an error as `aws_errors` does; InstanceError where the code says more."""
    if isinstance(error, sdk.ParamValidationError):
        return InstanceError(NAME, ErrorCode.INVALID_ARGUMENT, plain(str(error)))
    kind = explain_kind(error)
    code = None
    if isinstance(error, NO_CREDENTIALS):
        code = ErrorCode.UNAUTHENTICATED
    elif isinstance(error, sdk.ClientError):
        code = _meaning(_code(error))
    return (
        InstanceError(NAME, code, kind.message) if kind is not None and code is not None else kind
    )


def _meaning(code: str) -> ErrorCode | None:
    if code in UNAUTHENTICATED:
        return ErrorCode.UNAUTHENTICATED
    if code.startswith("Insufficient"):
        return ErrorCode.RESOURCE_EXHAUSTED
    if code.endswith("LimitExceeded") and not code.startswith(("Request", "Bandwidth")):
        return ErrorCode.RESOURCE_EXHAUSTED
    if code.endswith((".NotFound", ".Unavailable")):
        return ErrorCode.NOT_FOUND
    if code.startswith(("Invalid", "Missing", "UnknownParameter")):
        return ErrorCode.INVALID_ARGUMENT
    return None


def _request(order: InstanceOrder) -> dict[str, Any]:
    """Build the request of RunInstances. Raises InstanceError if the user data is too long."""
    config = AwsConfig.model_validate(dict(order.config))
    if (size := len(order.user_data.encode())) > MOST_USER_DATA:
        message = f"user data of {size} bytes: EC2 takes {MOST_USER_DATA}; shorten the class's"
        raise InstanceError(NAME, ErrorCode.INVALID_ARGUMENT, message)
    tags = {"Name": order.name, **config.tags, **order.tags}
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    request: dict[str, Any] = {
        "ClientToken": order.token,
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": config.image_id,
        "InstanceType": config.instance_type,
        "SubnetId": config.subnet_id,
        "SecurityGroupIds": config.security_group_ids,
        "InstanceInitiatedShutdownBehavior": "stop",
        # User data holds a secret: tokens and the hop limit let only the host itself read it.
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": listed} for kind in ("instance", "volume")
        ],
        "UserData": order.user_data,
    }
    if config.instance_profile:
        request["IamInstanceProfile"] = {"Name": config.instance_profile}
    if config.key_name:
        request["KeyName"] = config.key_name
    if (volume := config.root_volume) is not None:
        disk = {
            "VolumeSize": volume.size_gib,
            "VolumeType": volume.type,
            "Encrypted": volume.encrypted,
            "DeleteOnTermination": True,
        }
        request["BlockDeviceMappings"] = [{"DeviceName": volume.device, "Ebs": disk}]
    return request


def _instance(described: Mapping[str, Any]) -> Instance:
    tags = {tag["Key"]: tag.get("Value", "") for tag in described.get("Tags", ())}
    raw, address = str(described["State"]["Name"]), str(described.get("PrivateIpAddress") or "")
    return Instance(
        provider_id=str(
            ids.Ec2(described["Placement"]["AvailabilityZone"], described["InstanceId"])
        ),
        token=tags.get(TOKEN_TAG, ""),
        cluster=tags.get(CLUSTER_TAG, ""),
        state=STATES.get(raw, InstanceState.UNKNOWN),
        raw=raw,
        addresses=(address,) if address else (),
        created_at=described.get("LaunchTime"),  # of its last start: looks younger, never older
        tags=tags,
    )


def _alive(described: Mapping[str, Any], order: InstanceOrder) -> Instance:
    raw = described["State"]["Name"]
    if _ended(described) or STATES.get(raw) is InstanceState.ENDING:
        message = f"{described['InstanceId']}, made with token {order.token}, is {raw}"
        raise InstanceError(NAME, ErrorCode.FAILED_PRECONDITION, message)
    return _instance(described)


def _ended(described: Mapping[str, Any]) -> bool:
    return bool(described["State"]["Name"] == ENDED)


def _foreign(instance: Instance, cluster: str) -> InstanceError:
    message = f"{instance.provider_id} was not made for cluster {cluster}: it is left alone"
    return InstanceError(NAME, ErrorCode.FAILED_PRECONDITION, message)


def _code(error: sdk.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
