"""What the API server, hosts and callers hand us, fed with any bytes: read, or refused by name.

Each target has seeds of honest messages and names the functions that they must reach, so that
nobody fuzzes the first check alone.
"""

import base64
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from agent.components.files import keys
from agent.diagnostics.redaction import redacted
from agent.host import Contraindicated
from agent.journal import FileJournal, JournalError
from agent.request import Key
from defender.webhook.acts import of_node
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import Ask, HostProbe, NodeRemedier, RemedyOperationJob
from kubenode.runtime.admission.review import BadReview, read
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.objects import Event, Node, structs
from kubenode.runtime.kube.wire import decode_event, decode_head, decode_page
from kubenode.runtime.site.seals import Seal
from machine.certificates import requests, wire
from remedy.hostdoctor.nodes import NodeIndex
from remedy.job.model import Job
from remedy.webhook.decision_signer import Signer
from remedy.webhook.metrics import SigningMetrics
from rules.condition_clock import ConditionClock
from rules.lint import lint
from rules.nodereports import node_reports
from rules.program import RuleVersion, compile_program

NOW = datetime(2026, 1, 10, 10, 0, 30, tzinfo=UTC)
UNREADABLE = (ValueError, RecursionError)
"""What an informer takes for one object that cannot be read; msgspec and pydantic raise these."""


@dataclass(frozen=True, slots=True)
class Target:
    """feed     raises for whatever is neither read nor refused as it should be
    seeds    honest messages
    reaches  functions that the seeds get to
    """

    feed: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    reaches: tuple[Callable[..., Any], ...]


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


# -- certificate requests --------------------------------------------------------------------------


def a_request(*names: x509.GeneralName) -> bytes:
    """DER: a change of PEM's base64 would not get behind its first check."""
    subject = [
        x509.NameAttribute(NameOID.COMMON_NAME, "kubenode:agent:n1"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "kubenode:agents"),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    key = ec.derive_private_key(7, ec.SECP256R1())
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def certificate_request(data: bytes) -> None:
    body = base64.encodebytes(data)
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n%s-----END CERTIFICATE REQUEST-----\n" % body
    requests.claims_an_agent(pem)
    with suppress(requests.NoRequest):
        assert isinstance(requests.read(pem).san, bool)


def request_object(data: bytes) -> None:
    with suppress(*UNREADABLE):
        requests.claims_an_agent(wire.decode_request(data).spec.request)


# -- admission -------------------------------------------------------------------------------------


def a_review(resource: str, operation: str, new: Any, old: Any = None) -> bytes:
    request = {
        "uid": "u",
        "operation": operation,
        "name": "n1",
        "resource": {"group": "kubenode.io", "resource": resource},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": new,
        "oldObject": old,
    }
    return raw({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


A_NODE = {
    "metadata": {"name": "n1", "uid": "u1", "labels": {"kubernetes.io/hostname": "n1"}},
    "spec": {"unschedulable": True, "providerID": "aws:///eu-1a/i-0abc"},
    "status": {
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"bootID": "b", "kernelVersion": "6.1"},
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "R",
                "message": "m",
                "lastTransitionTime": "2026-01-10T10:00:00Z",
                "lastHeartbeatTime": "2026-01-10T10:00:20Z",
            }
        ],
    },
}
WORD = {"decision": "Approve"}
A_JOB: dict[str, Any] = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "RemedyOperationJob",
    "metadata": {"name": "n1-0", "creationTimestamp": "2026-01-10T10:00:00Z"},
    "spec": {
        "nodeName": "n1",
        "agent": "n1",
        "trigger": {"firstTrue": "2026-01-10T10:00:00Z"},
        "ladder": [{"name": "a", "steps": [{"cordon": {}}]}],
        "approvals": [],
    },
    "status": {"phase": "AwaitingApproval"},
}
A_RULE = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "NodeRemedier",
    "metadata": {"name": "r"},
    "spec": {
        "mode": "DryRun",
        "faultClass": "disk",
        "nodes": {"all": True},
        "when": {"all": [{"condition": {"type": "DiskBroken", "status": "True", "for": "5m"}}]},
        "ladder": [{"name": "a", "steps": [{"cordon": {}}, {"notify": {"receiver": "x"}}]}],
    },
}
APPROVED: dict[str, Any] = {**A_JOB, "spec": {**A_JOB["spec"], "approvals": [WORD]}}

GAVE_UP = {**A_JOB, "status": {"phase": "NeedsHuman", "rung": 0, "step": 0}}
NEXT = {
    **GAVE_UP,
    "spec": {**A_JOB["spec"], "cancel": True, "approvals": [{"decision": "Next", "rung": 0}]},
}


def node_review(data: bytes) -> None:
    with suppress(BadReview):
        review = read(data)
        with suppress(ValueError):
            of_node(review)


SIGNER = Signer(SystemClock(), SigningMetrics(CollectorRegistry()))


def word_review(data: bytes) -> None:
    with suppress(BadReview):
        answer = _done(SIGNER.answer(data, 5.0))
        json.dumps(answer)


def rule_review(data: bytes) -> None:
    """As the validator reads a rule, compiles and lints it."""
    with suppress(BadReview):
        review = read(data)
        try:
            rule = NodeRemedier.model_validate(review.object or {}, extra="ignore")
        except ValidationError as error:
            assert problems(error, NodeRemedier)
            return
        compile_program([RuleVersion("r", rule)])
        json.dumps([str(one) for one in lint([rule])])


def _done(work: Coroutine[Any, Any, Any]) -> Any:
    """What `work` returns, which waits for nobody."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    work.close()
    raise AssertionError("it waits for somebody")


# -- objects of lists and watches ------------------------------------------------------------------

_node, _event = structs(Node), structs(Event)


def node_object(data: bytes) -> None:
    """As the caches take a Node in, and what is built on it."""
    with suppress(*UNREADABLE):
        node = _node(data)
        index, clock = NodeIndex(), ConditionClock()
        index.changed(None, node)
        index.changed(node, None)
        assert len(index) == 0
        clock.take(node_reports(node), NOW)
        clock.facts()


def event_object(data: bytes) -> None:
    with suppress(*UNREADABLE):
        _event(data)


def job_object(data: bytes) -> None:
    with suppress(*UNREADABLE):
        Job.of(RemedyOperationJob.model_validate_json(data))


def probe_object(data: bytes) -> None:
    with suppress(*UNREADABLE):
        HostProbe.model_validate_json(data)


def watch_line(data: bytes) -> None:
    """An odd object keeps its name, so that it alone is skipped."""
    with suppress(*UNREADABLE):
        event = decode_event(data)
        decode_head(event.object)
    with suppress(*UNREADABLE):
        for item in decode_page(data).items or ():
            decode_head(item)


# -- callers and files -----------------------------------------------------------------------------

AN_ASK = {
    "node": "n1",
    "class": "Node",
    "operation": "reboot",
    "holder": {"kind": "RemedyOperationJob", "name": "n1-0", "uid": "u"},
}


def ask(data: bytes) -> None:
    try:
        Ask.model_validate_json(data)
    except ValidationError as error:
        assert all(problems(error, Ask))


SEAL = Seal(b"k" * 32)


def cookie(data: bytes) -> None:
    assert SEAL.open("session", data.decode("latin-1"), NOW) is None


KEY = Key("u1", "r0s0a1")


def journal(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        kept = FileJournal(Path(folder))
        (Path(folder) / str(KEY)).write_bytes(data)
        with suppress(JournalError):
            kept.read(KEY)


def keys_file(data: bytes) -> None:
    """The file of a service, with our keys merged in."""
    text = data.decode(errors="replace")
    for name, ours in (("a.toml", "[a]\nb = 1\n"), ("a.json", '{"a":{"b":1}}'), ("a.conf", "b=1")):
        with suppress(Contraindicated):
            merged = keys.merged(name, text, ours)
            assert keys.merged(name, merged, ours) == merged


def diagnostics(data: bytes) -> None:
    assert isinstance(redacted(data.decode(errors="replace")), str)


TARGETS: dict[str, Target] = {
    "certificate_request": Target(
        certificate_request,
        (a_request(), a_request(x509.DNSName("n1"), x509.RFC822Name("a@b.example"))),
        (requests.read, requests._alternatives, requests._key),
    ),
    "request_object": Target(
        request_object,
        (raw({"metadata": {"name": "c"}, "spec": {"request": "AAAA", "username": "u"}}),),
        (requests.claims_an_agent,),
    ),
    "node_review": Target(
        node_review,
        (a_review("nodes", "DELETE", None, A_NODE), a_review("nodes", "UPDATE", A_NODE, A_NODE)),
        (of_node,),
    ),
    "word_review": Target(
        word_review,
        (
            a_review("remedyoperationjobs", "UPDATE", APPROVED, A_JOB),
            a_review("remedyoperationjobs", "UPDATE", NEXT, GAVE_UP),
            a_review("remedyoperationjobs", "CREATE", A_JOB),
        ),
        (Signer._verdict,),
    ),
    "rule_review": Target(
        rule_review,
        (a_review("noderemediers", "CREATE", A_RULE),),
        (compile_program, lint),
    ),
    "node_object": Target(
        node_object, (raw(A_NODE),), (node_reports, ConditionClock.take, NodeIndex.changed)
    ),
    "event_object": Target(
        event_object,
        (raw({"metadata": {"name": "e"}, "reason": "R", "involvedObject": {"kind": "Node"}}),),
        (Event.__post_init__,),
    ),
    "job_object": Target(job_object, (raw(A_JOB), raw(APPROVED)), (Job.of,)),
    "probe_object": Target(
        probe_object,
        (
            raw(
                {
                    "metadata": {"name": "p"},
                    "spec": {"agent": "n1", "kind": "host"},
                    "status": {"answer": {"a": True}},
                }
            ),
        ),
        (),
    ),
    "watch_line": Target(
        watch_line,
        (
            raw({"type": "ADDED", "object": A_NODE}),
            raw({"metadata": {"resourceVersion": "1"}, "items": [A_NODE, A_JOB]}),
        ),
        (),
    ),
    "ask": Target(ask, (raw(AN_ASK),), ()),
    "cookie": Target(cookie, (SEAL.close("other", {"a": 1}, NOW).encode(), b"AAAA"), (Seal.open,)),
    "journal": Target(
        journal,
        (b'{"expiresAt":"2026-01-10T10:00:00Z"}', b'00000000 {"a":1}'),
        (FileJournal.read,),
    ),
    "keys_file": Target(
        keys_file,
        (b"[a]\nb = 2\nc = 3\n", b'{"a": {"b": 2, "c": [1]}}', b"b=2\n# c\n"),
        (keys._edited,),
    ),
    "diagnostics": Target(
        diagnostics,
        (b"Authorization: Bearer abc.def.ghi\npassword: x\n", b"-----BEGIN PRIVATE KEY-----\nAA\n"),
        (redacted,),
    ),
}
