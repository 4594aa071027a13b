"""What KubeNode asks of whoever makes machines: the port, its answers and errors.

Beside `port.py`, which switches machines that are there. An instance is made once for a client
token, however often it is asked for: the token is written down before the call and on the instance
itself, so that a lost answer is found again. Ending one is a wish for a state: asked again until it
is gone. What came of a call is told by a code; `next_try` says what follows from it.

    ProviderError
    └── InstanceError    code, the provider's own words, when to come again
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
"""On every instance that we make: whose it is, what it was asked for with, its Machine's name. No
slash: Azure takes none."""
TAGS = (CLUSTER_TAG, TOKEN_TAG, MACHINE_TAG)

FIRST_WAIT = timedelta(seconds=5)
LONGEST_WAIT = timedelta(seconds=300)
NO_ROOM_WAIT = timedelta(seconds=600)


class ErrorCode(StrEnum):
    """gRPC's names, so that they mean what people know."""

    OK = "OK"
    UNAVAILABLE = "UNAVAILABLE"
    ABORTED = "ABORTED"
    """Another operation is under way."""
    INTERNAL = "INTERNAL"
    UNKNOWN = "UNKNOWN"
    """No answer: it may have taken effect."""
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    """Likewise."""
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    """A quota, or no capacity. Too many requests are UNAVAILABLE."""
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    NOT_FOUND = "NOT_FOUND"
    """Of something that the class names: an image, a subnet."""
    ALREADY_EXISTS = "ALREADY_EXISTS"
    """Something else has the name or the token: equal tokens are the same instance, no error."""


class InstanceError(ProviderError):
    """provider  its name in the providers file
    message  the provider's own words, without secrets
    after    when to come again, None if it does not say
    """

    def __init__(
        self, provider: str, code: ErrorCode, message: str, after: timedelta | None = None
    ) -> None:
        super().__init__(provider, f"{code}: {message}")
        self.code, self.message, self.after = code, message, after


def several(provider: str, token: str, names: Sequence[str]) -> InstanceError:
    """More than one instance carries a token that is for one: a person ends the others."""
    message = f"{len(names)} instances carry token {token}: end all but one of"
    return InstanceError(
        provider, ErrorCode.FAILED_PRECONDITION, f"{message} {', '.join(sorted(names))}"
    )


class On(StrEnum):
    """What has to come before the next try."""

    TIME = "Time"
    CREDENTIALS = "Credentials"
    """New credentials, or a right given: a person acts. Look from time to time."""
    NOTHING = "Nothing"
    """No further try can help: the Machine has failed."""


@dataclass(frozen=True, slots=True)
class Next:
    """after  from now; of NOTHING None
    find_first   whether it may have taken effect: `find` the token before anything is asked again
    """

    on: On
    after: timedelta | None
    find_first: bool = False


_SHORT = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.ABORTED, ErrorCode.INTERNAL})
_OPEN = frozenset({ErrorCode.UNKNOWN, ErrorCode.DEADLINE_EXCEEDED})
_CREDENTIALS = frozenset({ErrorCode.UNAUTHENTICATED, ErrorCode.PERMISSION_DENIED})


def next_try(code: ErrorCode, attempt: int, retry_after: timedelta | None = None) -> Next:
    """What follows from the `attempt`-th failure in a row (1 is the first).

    retry_after  the provider's own word for when to come again: never sooner than that
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
    """What ended is not among them: it is not found any more."""

    PENDING = "Pending"
    RUNNING = "Running"
    STOPPED = "Stopped"
    ENDING = "Ending"
    FAILED = "Failed"
    """It was accepted and could not be made: no time brings it up, only a new attempt."""
    UNKNOWN = "Unknown"


class Deletion(StrEnum):
    GONE = "Gone"
    """Nothing of it runs or costs, as far as the provider shows."""
    IN_PROGRESS = "InProgress"


@dataclass(frozen=True, slots=True)
class InstanceOrder:
    """An instance that is wanted.

    token      `client_token`; at most 64 of `A-Za-z0-9-`
    cluster    name of this cluster, as on the tag
    machine    name of the Machine
    name       of its Node: the host's name, where the provider can give one
    config     `MachineClass.spec.config`, which `validate` has nothing against
    user_data  what the host does at its first boot: cloud-init; holds a secret
    """

    token: str
    cluster: str
    machine: str
    name: str
    config: Mapping[str, Any]
    user_data: str = field(repr=False, default="")

    @property
    def tags(self) -> dict[str, str]:
        """Ours."""
        return {CLUSTER_TAG: self.cluster, TOKEN_TAG: self.token, MACHINE_TAG: self.machine}


@dataclass(frozen=True, slots=True)
class Instance:
    """provider_id  as the Node's `spec.providerID` will be
    token        it was made with; "" if it has none
    cluster      it was made for; "" if it says none
    raw          its state in the provider's own words, for people
    addresses    inside the network, the first is the host's; () if it has none or does not say
    created_at   None if the provider does not say
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
    """Every method but `validate` and `owns` raises InstanceError and nothing else; none blocks.

    name        of its entry in the providers file: what `credentialsRef` says
    provider    aws, azure, alibaba, local
    operations  what `operate` can do
    """

    name: str
    provider: str
    operations: frozenset[MachineOperationType]

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """What is wrong with it, one sentence each: field, value, remedy. Pure."""
        ...

    def owns(self, provider_id: str) -> bool:
        """Whether the ID is of the form, and the place, of this provider's. Pure."""
        ...

    async def create(self, order: InstanceOrder) -> Instance:
        """The instance with this token, made if it is not there yet: equal tokens, one instance.

        FAILED_PRECONDITION if one was made with this token and has ended, or ends: as long as the
        provider remembers it.
        """
        ...

    async def get(self, provider_id: str) -> Instance | None:
        """None: the provider knows none, or it has ended. New ones may be missed for a while."""
        ...

    async def find(self, cluster: str, token: str) -> Instance | None:
        """As `get`, by the token. FAILED_PRECONDITION names all if several carry it."""
        ...

    async def delete(self, provider_id: str, cluster: str) -> Deletion:
        """With its own disks and addresses. To be asked again until GONE.

        FAILED_PRECONDITION if the instance is not one that was made for `cluster`.
        """
        ...

    async def list(self, cluster: str) -> Sequence[Instance]:
        """All that were made for `cluster` and have not ended. All or InstanceError."""
        ...

    async def operate(
        self, provider_id: str, cluster: str, operation: MachineOperationType, request: str
    ) -> None:
        """Ask for it once for `request`, as far as the provider can tell; its boot ID is the proof.

        UNIMPLEMENTED if it is not one of `operations`.
        """
        ...

    async def close(self) -> None: ...


def client_token(machine_uid: str, attempt: int) -> str:
    """Of the `attempt`-th instance of one Machine, the first is 1."""
    return f"{machine_uid}-{attempt}"


def machine_uid(token: str) -> str:
    """The Machine that a token is of, "" if it has not the form of one."""
    uid, _, attempt = token.rpartition("-")
    return uid if attempt.isdecimal() else ""


class InstanceProviders:
    """Those of the providers file that can make machines, in its order."""

    def __init__(self, providers: Sequence[Instances] = ()) -> None:
        self._providers = tuple(providers)

    @property
    def all(self) -> tuple[Instances, ...]:
        return self._providers

    def of(self, provider: str, credentials: str = "") -> Instances:
        """What a MachineClass names by `provider` and `credentialsRef`.

        Raises InstanceError with UNAUTHENTICATED: the file may come to have it.
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
        """Whose the instance is, when its class is not there any more."""
        return next((provider for provider in self._providers if provider.owns(provider_id)), None)

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()
