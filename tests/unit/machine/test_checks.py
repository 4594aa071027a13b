"""Each check of a certificate request says no to one that fails it alone, and names the remedy."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from support.clock import T0
from support.machine_requests import a_request

from kubenode.runtime.kube.objects import ObjectMeta
from machine.certificates.asked import Asked
from machine.certificates.case import Case, Owner, Reason, Token
from machine.certificates.checks import (
    CHECKS,
    MOST_REQUESTS,
    REQUESTS_WINDOW,
    judge,
    limit_requests,
)
from machine.certificates.kinds import AGENT, BY_SIGNER, KUBELET, LONGEST, SERVING, Kind
from machine.certificates.whose import machine_of, nodes_of, ours
from machine.certificates.wire import RequestSpec, SigningRequest
from machine.names import AGENT_GROUP, NODE_GROUP, NODE_USER, TOKEN_GROUP, agent_user

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


NODE = "n-113.example"
"""The node of Machine M."""


def a_kubelet(**spec: object) -> Case:
    """What is granted: the kubelet's next certificate, that it asks for itself."""
    honest = {
        "signer_name": KUBELET.signer,
        "username": NODE_USER + NODE,
        "groups": [NODE_GROUP, "system:authenticated"],
        "expiration_seconds": None,
    }
    case = asking(
        a_case(**{**honest, **spec}), common_names=(NODE_USER + NODE,), organizations=(NODE_GROUP,)
    )
    serves = frozenset({NODE, "10.2.7.113", "fd00::7"})
    return replace(case, token=None, owner=Owner(M, UID, token_id=ID, serves=serves))


def its_first(**spec: object) -> Case:
    """With the Machine's token, as an agent asks."""
    shown_by = {"username": f"system:bootstrap:{ID}", "groups": [TOKEN_GROUP]}
    return replace(a_kubelet(**{**shown_by, **spec}), token=Token(ID, M, UID, T0 + HOUR))


def its_server(**asked: object) -> Case:
    case = a_kubelet(signer_name=SERVING.signer, usages=["server auth", "digital signature"])
    names = {"dns": (NODE,), "addresses": ("10.2.7.113", "fd00:0::7")}
    return asking(case, **{**names, **asked})


def of_owner(case: Case, **changes: object) -> Case:
    assert case.owner is not None
    return replace(case, owner=replace(case.owner, **changes))  # type: ignore[arg-type]


def asking(case: Case, **changes: object) -> Case:
    assert case.asked is not None
    return replace(case, asked=replace(case.asked, **changes))  # type: ignore[arg-type]


def owned(**changes: object) -> Case:
    return of_owner(a_case(), **changes)


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
        a_kubelet(),
        a_kubelet(expiration_seconds=86400),
        of_owner(a_kubelet(), expires_at=T0 - HOUR),
        its_first(),
        of_owner(its_first(), expires_at=T0),
        of_owner(its_first(), expires_at=T0 + HOUR, reissue=True),
        of_owner(its_first(), older_node=True, reissue=True),
        of_owner(its_first(), older_node=True, request_id="request-1"),
        of_owner(a_kubelet(), older_node=True),
        its_server(),
        its_server(dns=()),
        its_server(addresses=()),
    ],
    ids=lambda case: f"{case.kind.whom}: {case.request.spec.username}",
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
    "alternative names": (Reason.NAMES, asking(a_case(), dns=("kubernetes",))),
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
    "a kubelet's of a node that was there": (
        Reason.OLDER_NODE,
        of_owner(its_first(), older_node=True),
    ),
    "a kubelet's by a stranger": (Reason.REQUESTER, a_kubelet(username="ann")),
    "a kubelet's by another node": (Reason.REQUESTER, a_kubelet(username=f"{NODE_USER}n-114")),
    "a kubelet's out of its group": (Reason.REQUESTER, a_kubelet(groups=[])),
    "a kubelet's by another token": (
        Reason.REQUESTER,
        its_first(groups=["system:bootstrappers:kubeadm:default-node-token"]),
    ),
    "a kubelet's by its agent": (
        Reason.REQUESTER,
        a_kubelet(username=agent_user(M), groups=[AGENT_GROUP]),
    ),
    "a kubelet's for an administrator": (
        Reason.COMMON_NAME,
        asking(its_first(), common_names=("admin",)),
    ),
    "a kubelet's of another group": (
        Reason.ORGANIZATION,
        asking(a_kubelet(), organizations=("system:masters",)),
    ),
    "a kubelet's with alternative names": (Reason.NAMES, asking(a_kubelet(), dns=(NODE,))),
    "a kubelet's for servers": (
        Reason.USAGES,
        a_kubelet(usages=["client auth", "server auth"]),
    ),
    "a kubelet's too long": (Reason.LIFE, a_kubelet(expiration_seconds=365 * 86400 + 1)),
    "a kubelet's of no Machine": (Reason.MACHINE, replace(a_kubelet(), owner=None)),
    "a kubelet's of a Machine that goes": (Reason.MACHINE, of_owner(a_kubelet(), deleted=True)),
    "a node of two Machines": (Reason.NODE, of_owner(a_kubelet(), rivals=("sh-114",))),
    "a kubelet's first by a foreign token": (
        Reason.TOKEN,
        of_owner(its_first(), uid="uid-0"),
    ),
    "a kubelet's first by an old token": (
        Reason.EXPIRED,
        replace(its_first(), token=Token(ID, M, UID, T0)),
    ),
    "a kubelet's first a second time": (Reason.LIVE, of_owner(its_first(), expires_at=T0 + HOUR)),
    "a server's by a token": (
        Reason.REQUESTER,
        its_first(signer_name=SERVING.signer, usages=["server auth"]),
    ),
    "a server's for clients": (
        Reason.USAGES,
        asking(
            a_kubelet(signer_name=SERVING.signer, usages=["server auth", "client auth"]),
            dns=(NODE,),
        ),
    ),
    "a server's by e-mail": (Reason.NAMES, its_server(other_names=True)),
    "a server's of nothing": (Reason.ADDRESS, its_server(dns=(), addresses=())),
    "a server's foreign address": (Reason.ADDRESS, its_server(addresses=("10.2.7.114",))),
    "a server's foreign name": (Reason.ADDRESS, its_server(dns=(NODE, "kubernetes.default"))),
    "a renewal of nothing": (Reason.UNKNOWN, a_renewal(expires_at=None)),
    "a renewal after the end": (Reason.UNKNOWN, a_renewal(expires_at=T0 - HOUR)),
}


ALL = {Reason.REQUESTER, Reason.ORGANIZATION, Reason.NAMES, Reason.USAGES, Reason.LIFE}
REFUSES: dict[Kind, set[Reason]] = {
    AGENT: ALL | {Reason.TOKEN, Reason.EXPIRED, Reason.LIVE, Reason.UNKNOWN, Reason.MACHINE},
    KUBELET: ALL
    | {Reason.TOKEN, Reason.EXPIRED, Reason.LIVE, Reason.MACHINE, Reason.NODE, Reason.COMMON_NAME},
    SERVING: {Reason.SIGNER, Reason.REQUESTER, Reason.NAMES, Reason.USAGES, Reason.ADDRESS},
}
"""What has a failing case of its own in each kind; the rest is the same code for all."""


@pytest.mark.parametrize("what", FAILING)
def test_a_request_that_fails_one_check_is_denied_with_its_reason(what: str) -> None:
    reason, case = FAILING[what]
    denial = judge(case)
    assert denial is not None and denial.reason is reason
    assert len(denial.message) > 20


def test_invariant_4_every_check_and_every_reason_has_a_failing_case() -> None:
    assert {reason for reason, _ in FAILING.values()} == set(Reason) - {Reason.TOO_MANY}
    for kind, reasons in REFUSES.items():
        found = {reason for reason, case in FAILING.values() if case.kind is kind}
        assert found >= reasons, kind.whom
    assert {
        next(check for check in CHECKS if check(case) is not None) for _, case in FAILING.values()
    } == set(CHECKS)


def test_used_expired_and_foreign_tokens_name_the_way_back() -> None:
    for what in ("a token that was used", "a token that is over", "a token of another Machine"):
        denial = judge(FAILING[what][1])
        assert denial is not None and "`kubenode machine" in denial.message


def nobody(node: str) -> bool:
    return False


@pytest.mark.parametrize("signer", ["example.com/mine", "kubernetes.io/legacy-unknown"])
def test_other_signers_are_none_of_our_business(signer: str) -> None:
    assert not ours(a_case(signer_name=signer).request, lambda node: True)


def test_a_request_of_a_person_is_none_of_our_business() -> None:
    assert not ours(a_case(username="ann", groups=["people"]).request, nobody)


@pytest.mark.parametrize("signer", [KUBELET.signer, SERVING.signer])
def test_nodes_that_no_machine_speaks_of_are_left_to_others(signer: str) -> None:
    joins = ["system:bootstrappers:kubeadm:default-node-token"]
    for user, groups in ((NODE_USER + NODE, [NODE_GROUP]), ("system:bootstrap:xxxxxx", joins)):
        pem = a_request(NODE_USER + NODE, [NODE_GROUP])
        request = a_kubelet(signer_name=signer, username=user, groups=groups, request=pem).request
        assert nodes_of(request) == {NODE}
        assert not ours(request, nobody)
        assert ours(request, {NODE}.__contains__)
    assert ours(its_first(signer_name=signer).request, nobody), "one by our token is"


def test_who_asks_and_who_is_asked_for_both_make_it_ours() -> None:
    pem = a_request(NODE_USER + "victim", [NODE_GROUP])
    request = a_kubelet(username=NODE_USER + "thief", request=pem).request
    for node in ("victim", "thief"):
        assert ours(request, {node}.__contains__)


def test_each_kind_has_a_signer_of_its_own() -> None:
    assert {kind.signer for kind in (AGENT, KUBELET, SERVING)} == set(BY_SIGNER)


def test_the_machine_is_who_the_one_common_name_says() -> None:
    assert machine_of(a_case().asked) == M
    assert machine_of(None) == ""


SECOND = timedelta(seconds=1)


def requests(count: int, *, apart: timedelta = timedelta(0)) -> list[SigningRequest]:
    """Requests of one agent, the oldest first."""
    spec = a_renewal().request.spec
    return [
        SigningRequest(ObjectMeta(name=f"csr-{n:04}", creation_timestamp=T0 + n * apart), spec)
        for n in range(count)
    ]


@pytest.mark.parametrize("apart", [timedelta(0), SECOND])
def test_a_burst_of_requests_is_denied_beyond_the_first_ones(apart: timedelta) -> None:
    made = requests(400, apart=apart)
    denied = [limit_requests(one, reversed(made)) for one in made]
    assert denied[:MOST_REQUESTS] == [None] * MOST_REQUESTS
    assert {no.reason for no in denied[MOST_REQUESTS:] if no} == {Reason.TOO_MANY}
    assert None not in denied[MOST_REQUESTS:]


def test_requests_over_a_long_time_are_not_too_many() -> None:
    made = requests(400, apart=REQUESTS_WINDOW / MOST_REQUESTS)
    assert [limit_requests(one, made) for one in made] == [None] * 400
