"""The port to providers that create and delete instances, with its answers and errors.

`kubenode.providers.port` is the port that switches existing machines. `create` is idempotent under
a client token: the caller stores the token before the call, and the instance carries it as a tag,
so that an instance whose answer was lost can be identified. `delete` is repeated until the
instance is gone. Errors carry a code; `next_try` derives the next step from it.

    ProviderError
    └── InstanceError    code, the provider's own text, delay before the next request
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers.errors import ProviderError

CLUSTER_TAG = "kubenode-cluster"
TOKEN_TAG = "kubenode-token"
MACHINE_TAG = "kubenode-machine"
"""Tags of every instance that we create: cluster, client token and name of the Machine. They have
no slash, which Azure does not accept.
"""
TAGS = (CLUSTER_TAG, TOKEN_TAG, MACHINE_TAG)

FIRST_WAIT = timedelta(seconds=5)
LONGEST_WAIT = timedelta(seconds=300)
NO_ROOM_WAIT = timedelta(seconds=600)


class ErrorCode(StrEnum):
    """Names of gRPC's status codes, with their known meaning."""

    OK = "OK"
    UNAVAILABLE = "UNAVAILABLE"
    ABORTED = "ABORTED"
    """Another operation is in progress."""
    INTERNAL = "INTERNAL"
    UNKNOWN = "UNKNOWN"
    """No answer: the request may have taken effect."""
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    """No answer in time: the request may have taken effect."""
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    """A quota is reached, or there is no capacity. Too many requests are UNAVAILABLE."""
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    NOT_FOUND = "NOT_FOUND"
    """Something that the class names does not exist, such as an image or a subnet."""
    ALREADY_EXISTS = "ALREADY_EXISTS"
    """Something else has the name or token. An equal order is no error: it returns its instance."""


class InstanceError(ProviderError):
    """An operation on an instance failed.

    provider: its name in the providers file
    message: the provider's own text, without secrets
    after: delay before the next request, None if the provider names none
    """

    def __init__(
        self, provider: str, code: ErrorCode, message: str, after: timedelta | None = None
    ) -> None:
        super().__init__(provider, f"{code}: {message}")
        self.code, self.message, self.after = code, message, after


def several(provider: str, token: str, names: Sequence[str]) -> InstanceError:
    """Build the error for a token that several instances carry: a person deletes all but one."""
    message = f"{len(names)} instances carry token {token}: end all but one of"
    return InstanceError(
        provider, ErrorCode.FAILED_PRECONDITION, f"{message} {', '.join(sorted(names))}"
    )


class On(StrEnum):
    """What the next try waits for."""

    TIME = "Time"
    CREDENTIALS = "Credentials"
    """New credentials or a new right, given by a person. Retried from time to time."""
    NOTHING = "Nothing"
    """No retry can help: the Machine has failed."""


@dataclass(frozen=True, slots=True)
class Next:
    """What follows from a failure.

    after: delay from now, None for NOTHING
    find_first: True if the request may have taken effect, so that `find` must precede a retry
    """

    on: On
    after: timedelta | None
    find_first: bool = False


_SHORT = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.ABORTED, ErrorCode.INTERNAL})
_OPEN = frozenset({ErrorCode.UNKNOWN, ErrorCode.DEADLINE_EXCEEDED})
_CREDENTIALS = frozenset({ErrorCode.UNAUTHENTICATED, ErrorCode.PERMISSION_DENIED})


def next_try(code: ErrorCode, attempt: int, retry_after: timedelta | None = None) -> Next:
    """Return what follows from the `attempt`-th failure in a row (1 is the first).

    retry_after: least delay that the provider demands, None if it names none
    """
    if code in _SHORT or code in _OPEN:
        doubled = FIRST_WAIT * 2 ** min(max(attempt - 1, 0), 16)
        wait = max(min(doubled, LONGEST_WAIT), retry_after or timedelta())
        return Next(On.TIME, wait, find_first=code in _OPEN)
    if code is ErrorCode.RESOURCE_EXHAUSTED:
        return Next(On.TIME, max(NO_ROOM_WAIT, retry_after or timedelta()))
    if code in _CREDENTIALS:
        return Next(On.CREDENTIALS, LONGEST_WAIT)
    return Next(On.NOTHING, None)


class InstanceState(StrEnum):
    """State of an instance. An instance that has ended has none: it is not found any more."""

    PENDING = "Pending"
    RUNNING = "Running"
    STOPPED = "Stopped"
    ENDING = "Ending"
    FAILED = "Failed"
    """Accepted, but could not be created. Waiting does not help, only a new attempt."""
    UNKNOWN = "Unknown"


class Deletion(StrEnum):
    GONE = "Gone"
    """Nothing of the instance runs or costs money, as far as the provider shows."""
    IN_PROGRESS = "InProgress"


@dataclass(frozen=True, slots=True)
class InstanceOrder:
    """An instance to create.

    token: `client_token`, at most 64 characters of `A-Za-z0-9-`
    cluster: name of this cluster, as on the tag
    machine: name of the Machine
    name: name of the Node, which is the host name where the provider can set one
    config: `MachineClass.spec.config`, accepted by `validate`
    user_data: cloud-init for the first boot; holds a secret
    """

    token: str
    cluster: str
    machine: str
    name: str
    config: Mapping[str, Any]
    user_data: str = field(repr=False, default="")

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags that KubeNode itself adds."""
        return {CLUSTER_TAG: self.cluster, TOKEN_TAG: self.token, MACHINE_TAG: self.machine}


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance as its provider describes it.

    provider_id: the Node's future `spec.providerID`
    token: client token of its tag, "" without one
    cluster: cluster of its tag, "" without one
    raw: its state in the provider's own words, for people
    addresses: internal ones, the host's first; () if there are none or the provider shows none
    created_at: None if the provider does not show it
    """

    provider_id: str
    token: str
    cluster: str
    state: InstanceState
    raw: str = ""
    addresses: tuple[str, ...] = ()
    created_at: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


class Instances(Protocol):
    """A provider of instances.

    Every method but `validate` and `owns` raises InstanceError and nothing else; none blocks.

    name: of its entry in the providers file, which `credentialsRef` refers to
    provider: aws, azure, alibaba or local
    operations: what `operate` accepts
    """

    name: str
    provider: str
    operations: frozenset[MachineOperationType]

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """List what is wrong with `config`, one sentence each: field, value, remedy. Pure."""
        ...

    def owns(self, provider_id: str) -> bool:
        """Return whether the ID has this provider's form and region or account. Pure."""
        ...

    async def create(self, order: InstanceOrder) -> Instance:
        """Return the instance with the order's token, and create it first if there is none.

        FAILED_PRECONDITION if an instance with this token has ended or is ending, as long as the
        provider remembers it.
        """
        ...

    async def get(self, provider_id: str) -> Instance | None:
        """Return the instance, None if unknown or ended. A new one may be missing for a while."""
        ...

    async def find(self, cluster: str, token: str) -> Instance | None:
        """Find an instance by its token, else as `get`. FAILED_PRECONDITION if several have it."""
        ...

    async def delete(self, provider_id: str, cluster: str) -> Deletion:
        """Delete the instance with its own disks and addresses. Repeat the call until GONE.

        FAILED_PRECONDITION if the instance was not created for `cluster`.
        """
        ...

    async def list(self, cluster: str) -> Sequence[Instance]:
        """List all instances created for `cluster` that have not ended. Never returns only some."""
        ...

    async def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        """Send `operation` once for `request`, as far as the provider can tell repetitions.

        Only a new boot ID proves that it happened. UNIMPLEMENTED if it is not one of `operations`.
        """
        ...

    async def close(self) -> None: ...


def client_token(machine_uid: str, attempt: int) -> str:
    """Return the token of the `attempt`-th instance of a Machine, counted from 1."""
    return f"{machine_uid}-{attempt}"


def machine_uid(token: str) -> str:
    """Return the UID of the Machine that a client token belongs to, "" if it is no client token."""
    uid, _, attempt = token.rpartition("-")
    return uid if attempt.isdecimal() else ""


class InstanceProviders:
    """The entries of the providers file that can create instances, in its order."""

    def __init__(self, providers: Sequence[Instances] = ()) -> None:
        self._providers = tuple(providers)

    @property
    def all(self) -> tuple[Instances, ...]:
        return self._providers

    def of(self, provider: str, credentials: str = "") -> Instances:
        """Return the provider that a MachineClass names by `provider` and `credentialsRef`.

        Raises InstanceError with UNAUTHENTICATED, because a later file may have the entry.
        """
        matches = [
            candidate
            for candidate in self._providers
            if candidate.provider == provider and credentials in ("", candidate.name)
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(candidate.name for candidate in matches)
            raise InstanceError(
                provider,
                ErrorCode.UNAUTHENTICATED,
                f"the operator's providers file has {len(matches)} of type {provider}: name one of"
                f" {names} in credentialsRef",
            )
        wanted = f"{credentials!r} of type {provider}" if credentials else f"of type {provider}"
        raise InstanceError(
            provider,
            ErrorCode.UNAUTHENTICATED,
            f"the operator's providers file has no entry {wanted}: add one (docs/providers.md)",
        )

    def owner(self, provider_id: str) -> Instances | None:
        """Return the provider that owns an instance, even if its class is gone; else None."""
        return next((provider for provider in self._providers if provider.owns(provider_id)), None)

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()
