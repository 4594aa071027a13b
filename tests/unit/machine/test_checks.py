"""Each check of a certificate request says no to one that fails it alone, and names the remedy."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from support.clock import T0

from kubenode.runtime.kube.objects import ObjectMeta
from machine.certificates.asked import Asked
from machine.certificates.checks import (
    CHECKS,
    LONGEST,
    Case,
    Owner,
    Reason,
    Token,
    judge,
    machine_of,
    ours,
)
from machine.certificates.wire import RequestSpec, SigningRequest
from machine.names import AGENT_GROUP, TOKEN_GROUP, agent_user

M, ID, UID = "sh-113", "abcdef", "uid-1"
HOUR = timedelta(hours=1)


def a_spec(**changes: object) -> RequestSpec:
    spec = RequestSpec(
        signer_name="kubernetes.io/kube-apiserver-client",
        username=f"system:bootstrap:{ID}",
        groups=[TOKEN_GROUP, "system:authenticated"],
        usages=["client auth", "digital signature"],
        expiration_seconds=int(LONGEST.total_seconds()),
    )
    return msgspec.structs.replace(spec, **changes)


def a_case(**spec: object) -> Case:
    """What is granted: the first certificate, asked for with the Machine's token."""
    return Case(
        SigningRequest(
            ObjectMeta(name="csr", uid="request-1", creation_timestamp=T0), a_spec(**spec)
        ),
        Asked(True, "", (agent_user(M),), (AGENT_GROUP,), False, False),
        Owner(M, UID, token_id=ID),
        Token(ID, M, UID, T0 + HOUR),
        T0,
    )


def a_renewal(**owner: object) -> Case:
    case = a_case(username=agent_user(M), groups=[AGENT_GROUP])
    known = Owner(M, UID, expires_at=T0 + HOUR)
    return replace(case, token=None, owner=replace(known, **owner))  # type: ignore[arg-type]


def asking(case: Case, **changes: object) -> Case:
    assert case.asked is not None
    return replace(case, asked=replace(case.asked, **changes))  # type: ignore[arg-type]


def owned(**changes: object) -> Case:
    case = a_case()
    assert case.owner is not None
    return replace(case, owner=replace(case.owner, **changes))  # type: ignore[arg-type]


def shown(**changes: object) -> Case:
    case = a_case()
    assert case.token is not None
    return replace(case, token=replace(case.token, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "case",
    [
        a_case(),
        a_case(usages=["client auth"]),
        a_case(usages=["client auth", "digital signature", "key encipherment"]),
        a_case(expiration_seconds=600),
        a_renewal(),
        owned(expires_at=T0, request_id="another"),
        owned(expires_at=T0 + HOUR, request_id="request-1"),
        owned(expires_at=T0 + HOUR, request_id="another", reissue=True),
    ],
    ids=lambda case: case.request.spec.username,
)
def test_an_honest_request_is_granted(case: Case) -> None:
    assert judge(case) is None


FAILING: dict[str, tuple[Reason, Case]] = {
    "another signer": (Reason.SIGNER, a_case(signer_name="kubernetes.io/kubelet-serving")),
    "a stranger": (Reason.REQUESTER, a_case(username="ann", groups=["people"])),
    "a token of others": (Reason.REQUESTER, a_case(groups=["system:bootstrappers"])),
    "a name of our group alone": (Reason.REQUESTER, a_case(username="ann")),
    "another agent": (
        Reason.REQUESTER,
        a_case(username=agent_user("sh-114"), groups=[AGENT_GROUP]),
    ),
    "an agent out of its group": (Reason.REQUESTER, a_case(username=agent_user(M), groups=[])),
    "no PEM": (Reason.REQUEST, replace(a_case(), asked=None)),
    "not signed by its key": (Reason.SIGNATURE, asking(a_case(), signed=False)),
    "weak key": (Reason.KEY, asking(a_case(), key="RSA of 1024 bits")),
    "no name": (Reason.COMMON_NAME, asking(a_case(), common_names=())),
    "an empty name": (Reason.COMMON_NAME, asking(a_case(), common_names=(agent_user(""),))),
    "two names": (
        Reason.COMMON_NAME,
        asking(a_case(), common_names=(agent_user(M), agent_user("b"))),
    ),
    "an administrator's name": (Reason.COMMON_NAME, asking(a_case(), common_names=("admin",))),
    "no group": (Reason.ORGANIZATION, asking(a_case(), organizations=())),
    "an administrator's group": (
        Reason.ORGANIZATION,
        asking(a_case(), organizations=("system:masters",)),
    ),
    "one group more": (
        Reason.ORGANIZATION,
        asking(a_case(), organizations=(AGENT_GROUP, "system:masters")),
    ),
    "alternative names": (Reason.NAMES, asking(a_case(), san=True)),
    "a unit": (Reason.NAMES, asking(a_case(), more_names=True)),
    "no usage": (Reason.USAGES, a_case(usages=[])),
    "for servers too": (Reason.USAGES, a_case(usages=["client auth", "server auth"])),
    "not for clients": (Reason.USAGES, a_case(usages=["digital signature"])),
    "too long": (Reason.LIFE, a_case(expiration_seconds=30 * 86400 + 1)),
    "no end": (Reason.LIFE, a_case(expiration_seconds=None)),
    "no Machine": (Reason.MACHINE, replace(a_case(), owner=None)),
    "a Machine that goes": (Reason.MACHINE, owned(deleted=True)),
    "no token": (Reason.TOKEN, replace(a_case(), token=None)),
    "a token of another Machine": (Reason.TOKEN, shown(machine="sh-114")),
    "a token of the Machine before": (Reason.TOKEN, shown(machine_uid="uid-0")),
    "a token that was replaced": (Reason.TOKEN, owned(token_id="ghijkl")),
    "a token that is over": (Reason.EXPIRED, shown(expires_at=T0)),
    "a token that was used": (Reason.LIVE, owned(expires_at=T0 + HOUR)),
    "used for another request": (
        Reason.LIVE,
        owned(expires_at=T0 + HOUR, request_id="request-0"),
    ),
    "a renewal of nothing": (Reason.UNKNOWN, a_renewal(expires_at=None)),
    "a renewal after the end": (Reason.UNKNOWN, a_renewal(expires_at=T0 - HOUR)),
}


@pytest.mark.parametrize("what", FAILING)
def test_a_request_that_fails_one_check_is_denied_with_its_reason(what: str) -> None:
    reason, case = FAILING[what]
    denial = judge(case)
    assert denial is not None and denial.reason is reason
    assert len(denial.message) > 20


def test_invariant_4_every_check_and_every_reason_has_a_failing_case() -> None:
    assert {reason for reason, _ in FAILING.values()} == set(Reason)
    assert {
        next(check for check in CHECKS if check(case) is not None) for _, case in FAILING.values()
    } == set(CHECKS)


def test_used_expired_and_foreign_tokens_name_the_way_back() -> None:
    for what in ("a token that was used", "a token that is over", "a token of another Machine"):
        denial = judge(FAILING[what][1])
        assert denial is not None and "`kubenode machine" in denial.message


@pytest.mark.parametrize("signer", ["example.com/mine", "kubernetes.io/legacy-unknown"])
def test_other_signers_are_none_of_our_business(signer: str) -> None:
    assert not ours(a_case(signer_name=signer).request)


def test_a_request_of_a_person_is_none_of_our_business() -> None:
    assert not ours(a_case(username="ann", groups=["people"]).request)


def test_the_machine_is_who_the_one_common_name_says() -> None:
    assert machine_of(a_case().asked) == M
    assert machine_of(None) == ""
