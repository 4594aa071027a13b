"""Each check of a certificate request says no to one that fails it alone, and names the remedy."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from support.clock import T0
from support.machine_requests import a_request

from kubenode.runtime.kube.objects import KubeObjectMeta
from machine.certificates.case import (
    BootstrapToken,
    CertificateCase,
    CertificateOwner,
    DenialReason,
)
from machine.certificates.checks import (
    CHECKS,
    MOST_REQUESTS,
    REQUESTS_WINDOW,
    judge,
    limit_requests,
)
from machine.certificates.kinds import AGENT, BY_SIGNER, KUBELET, LONGEST, SERVING, CertificateKind
from machine.certificates.requester import machine_of, nodes_of, ours
from machine.certificates.requests import RequestedCertificate
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


def a_case(**spec: object) -> CertificateCase:
    """What is granted: the first certificate, asked for with the Machine's token."""
    return CertificateCase(
        SigningRequest(
            KubeObjectMeta(name="csr", uid="request-1", creation_timestamp=T0), a_spec(**spec)
        ),
        RequestedCertificate(True, "", (agent_user(M),), (AGENT_GROUP,), False, False),
        CertificateOwner(M, UID, token_id=ID),
        BootstrapToken(ID, M, UID, T0 + HOUR),
        T0,
    )


def a_renewal(**owner: object) -> CertificateCase:
    case = a_case(username=agent_user(M), groups=[AGENT_GROUP])
    known = CertificateOwner(M, UID, expires_at=T0 + HOUR)
    return replace(case, token=None, owner=replace(known, **owner))  # type: ignore[arg-type]


NODE = "n-113.example"
"""The node of Machine M."""


def a_kubelet(**spec: object) -> CertificateCase:
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
    return replace(case, token=None, owner=CertificateOwner(M, UID, token_id=ID, serves=serves))


def its_first(**spec: object) -> CertificateCase:
    """With the Machine's token, as an agent asks."""
    shown_by = {"username": f"system:bootstrap:{ID}", "groups": [TOKEN_GROUP]}
    return replace(a_kubelet(**{**shown_by, **spec}), token=BootstrapToken(ID, M, UID, T0 + HOUR))


def its_server(**asked: object) -> CertificateCase:
    case = a_kubelet(signer_name=SERVING.signer, usages=["server auth", "digital signature"])
    names = {"dns": (NODE,), "addresses": ("10.2.7.113", "fd00:0::7")}
    return asking(case, **{**names, **asked})


def of_owner(case: CertificateCase, **changes: object) -> CertificateCase:
    assert case.owner is not None
    return replace(case, owner=replace(case.owner, **changes))  # type: ignore[arg-type]


def asking(case: CertificateCase, **changes: object) -> CertificateCase:
    assert case.requested is not None
    return replace(case, requested=replace(case.requested, **changes))  # type: ignore[arg-type]


def owned(**changes: object) -> CertificateCase:
    return of_owner(a_case(), **changes)


def shown(**changes: object) -> CertificateCase:
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
def test_an_honest_request_is_granted(case: CertificateCase) -> None:
    assert judge(case) is None


FAILING: dict[str, tuple[DenialReason, CertificateCase]] = {
    "another signer": (DenialReason.SIGNER, a_case(signer_name="kubernetes.io/kubelet-serving")),
    "a stranger": (DenialReason.REQUESTER, a_case(username="ann", groups=["people"])),
    "a token of others": (DenialReason.REQUESTER, a_case(groups=["system:bootstrappers"])),
    "a name of our group alone": (DenialReason.REQUESTER, a_case(username="ann")),
    "another agent": (
        DenialReason.REQUESTER,
        a_case(username=agent_user("sh-114"), groups=[AGENT_GROUP]),
    ),
    "an agent out of its group": (
        DenialReason.REQUESTER,
        a_case(username=agent_user(M), groups=[]),
    ),
    "no PEM": (DenialReason.REQUEST, replace(a_case(), requested=None)),
    "not signed by its key": (DenialReason.SIGNATURE, asking(a_case(), signed=False)),
    "weak key": (DenialReason.KEY, asking(a_case(), key="RSA of 1024 bits")),
    "no name": (DenialReason.COMMON_NAME, asking(a_case(), common_names=())),
    "an empty name": (DenialReason.COMMON_NAME, asking(a_case(), common_names=(agent_user(""),))),
    "two names": (
        DenialReason.COMMON_NAME,
        asking(a_case(), common_names=(agent_user(M), agent_user("b"))),
    ),
    "an administrator's name": (
        DenialReason.COMMON_NAME,
        asking(a_case(), common_names=("admin",)),
    ),
    "no group": (DenialReason.ORGANIZATION, asking(a_case(), organizations=())),
    "an administrator's group": (
        DenialReason.ORGANIZATION,
        asking(a_case(), organizations=("system:masters",)),
    ),
    "one group more": (
        DenialReason.ORGANIZATION,
        asking(a_case(), organizations=(AGENT_GROUP, "system:masters")),
    ),
    "alternative names": (DenialReason.NAMES, asking(a_case(), dns=("kubernetes",))),
    "a unit": (DenialReason.NAMES, asking(a_case(), more_names=True)),
    "no usage": (DenialReason.USAGES, a_case(usages=[])),
    "for servers too": (DenialReason.USAGES, a_case(usages=["client auth", "server auth"])),
    "not for clients": (DenialReason.USAGES, a_case(usages=["digital signature"])),
    "too long": (DenialReason.LIFE, a_case(expiration_seconds=30 * 86400 + 1)),
    "no end": (DenialReason.LIFE, a_case(expiration_seconds=None)),
    "no Machine": (DenialReason.MACHINE, replace(a_case(), owner=None)),
    "a Machine that goes": (DenialReason.MACHINE, owned(deleted=True)),
    "no token": (DenialReason.TOKEN, replace(a_case(), token=None)),
    "a token of another Machine": (DenialReason.TOKEN, shown(machine="sh-114")),
    "a token of the Machine before": (DenialReason.TOKEN, shown(machine_uid="uid-0")),
    "a token that was replaced": (DenialReason.TOKEN, owned(token_id="ghijkl")),
    "a token that is over": (DenialReason.EXPIRED, shown(expires_at=T0)),
    "a token that was used": (DenialReason.LIVE, owned(expires_at=T0 + HOUR)),
    "used for another request": (
        DenialReason.LIVE,
        owned(expires_at=T0 + HOUR, request_id="request-0"),
    ),
    "a kubelet's of a node that was there": (
        DenialReason.OLDER_NODE,
        of_owner(its_first(), older_node=True),
    ),
    "a kubelet's by a stranger": (DenialReason.REQUESTER, a_kubelet(username="ann")),
    "a kubelet's by another node": (
        DenialReason.REQUESTER,
        a_kubelet(username=f"{NODE_USER}n-114"),
    ),
    "a kubelet's out of its group": (DenialReason.REQUESTER, a_kubelet(groups=[])),
    "a kubelet's by another token": (
        DenialReason.REQUESTER,
        its_first(groups=["system:bootstrappers:kubeadm:default-node-token"]),
    ),
    "a kubelet's by its agent": (
        DenialReason.REQUESTER,
        a_kubelet(username=agent_user(M), groups=[AGENT_GROUP]),
    ),
    "a kubelet's for an administrator": (
        DenialReason.COMMON_NAME,
        asking(its_first(), common_names=("admin",)),
    ),
    "a kubelet's of another group": (
        DenialReason.ORGANIZATION,
        asking(a_kubelet(), organizations=("system:masters",)),
    ),
    "a kubelet's with alternative names": (DenialReason.NAMES, asking(a_kubelet(), dns=(NODE,))),
    "a kubelet's for servers": (
        DenialReason.USAGES,
        a_kubelet(usages=["client auth", "server auth"]),
    ),
    "a kubelet's too long": (DenialReason.LIFE, a_kubelet(expiration_seconds=365 * 86400 + 1)),
    "a kubelet's of no Machine": (DenialReason.MACHINE, replace(a_kubelet(), owner=None)),
    "a kubelet's of a Machine that goes": (
        DenialReason.MACHINE,
        of_owner(a_kubelet(), deleted=True),
    ),
    "a node of two Machines": (DenialReason.NODE, of_owner(a_kubelet(), rivals=("sh-114",))),
    "a kubelet's first by a foreign token": (
        DenialReason.TOKEN,
        of_owner(its_first(), uid="uid-0"),
    ),
    "a kubelet's first by an old token": (
        DenialReason.EXPIRED,
        replace(its_first(), token=BootstrapToken(ID, M, UID, T0)),
    ),
    "a kubelet's first a second time": (
        DenialReason.LIVE,
        of_owner(its_first(), expires_at=T0 + HOUR),
    ),
    "a server's by a token": (
        DenialReason.REQUESTER,
        its_first(signer_name=SERVING.signer, usages=["server auth"]),
    ),
    "a server's for clients": (
        DenialReason.USAGES,
        asking(
            a_kubelet(signer_name=SERVING.signer, usages=["server auth", "client auth"]),
            dns=(NODE,),
        ),
    ),
    "a server's by e-mail": (DenialReason.NAMES, its_server(other_names=True)),
    "a server's of nothing": (DenialReason.ADDRESS, its_server(dns=(), addresses=())),
    "a server's foreign address": (DenialReason.ADDRESS, its_server(addresses=("10.2.7.114",))),
    "a server's foreign name": (DenialReason.ADDRESS, its_server(dns=(NODE, "kubernetes.default"))),
    "a renewal of nothing": (DenialReason.UNKNOWN, a_renewal(expires_at=None)),
    "a renewal after the end": (DenialReason.UNKNOWN, a_renewal(expires_at=T0 - HOUR)),
}


ALL = {
    DenialReason.REQUESTER,
    DenialReason.ORGANIZATION,
    DenialReason.NAMES,
    DenialReason.USAGES,
    DenialReason.LIFE,
}
REFUSES: dict[CertificateKind, set[DenialReason]] = {
    AGENT: ALL
    | {
        DenialReason.TOKEN,
        DenialReason.EXPIRED,
        DenialReason.LIVE,
        DenialReason.UNKNOWN,
        DenialReason.MACHINE,
    },
    KUBELET: ALL
    | {
        DenialReason.TOKEN,
        DenialReason.EXPIRED,
        DenialReason.LIVE,
        DenialReason.MACHINE,
        DenialReason.NODE,
        DenialReason.COMMON_NAME,
    },
    SERVING: {
        DenialReason.SIGNER,
        DenialReason.REQUESTER,
        DenialReason.NAMES,
        DenialReason.USAGES,
        DenialReason.ADDRESS,
    },
}
"""What has a failing case of its own in each kind; the rest is the same code for all."""


@pytest.mark.parametrize("what", FAILING)
def test_a_request_that_fails_one_check_is_denied_with_its_reason(what: str) -> None:
    reason, case = FAILING[what]
    denial = judge(case)
    assert denial is not None and denial.reason is reason
    assert len(denial.message) > 20


def test_invariant_4_every_check_and_every_reason_has_a_failing_case() -> None:
    assert {reason for reason, _ in FAILING.values()} == set(DenialReason) - {DenialReason.TOO_MANY}
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
    assert machine_of(a_case().requested) == M
    assert machine_of(None) == ""


SECOND = timedelta(seconds=1)


def requests(count: int, *, apart: timedelta = timedelta(0)) -> list[SigningRequest]:
    """Requests of one agent, the oldest first."""
    spec = a_renewal().request.spec
    return [
        SigningRequest(KubeObjectMeta(name=f"csr-{n:04}", creation_timestamp=T0 + n * apart), spec)
        for n in range(count)
    ]


@pytest.mark.parametrize("apart", [timedelta(0), SECOND])
def test_a_burst_of_requests_is_denied_beyond_the_first_ones(apart: timedelta) -> None:
    made = requests(400, apart=apart)
    denied = [limit_requests(one, reversed(made)) for one in made]
    assert denied[:MOST_REQUESTS] == [None] * MOST_REQUESTS
    assert {no.reason for no in denied[MOST_REQUESTS:] if no} == {DenialReason.TOO_MANY}
    assert None not in denied[MOST_REQUESTS:]


def test_requests_over_a_long_time_are_not_too_many() -> None:
    made = requests(400, apart=REQUESTS_WINDOW / MOST_REQUESTS)
    assert [limit_requests(one, made) for one in made] == [None] * 400
