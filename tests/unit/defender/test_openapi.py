"""The OpenAPI document says what the API does: real answers fit it, whatever is sent."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.asgi import Reply, request
from support.clock import T0, FakeClock
from support.defender_api import NO, YES, Nothing, Recording, an_app, an_ask
from support.defender_core import Core, a_node, a_policy
from support.defender_core import an_ask as asking

from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.server.auth.rights import LOOPBACK
from defender.server.http.app import create_app
from defender.server.http.shown import explained
from devtools.defender_openapi import FILE, document, text
from kubenode.api.v1alpha1 import Disruption, Operation, Reason
from kubenode.runtime.kube.identity import Identity

DOCUMENT = document()
PATHS: dict[str, dict[str, Any]] = DOCUMENT["paths"]
OPERATIONS = [(path, method) for path, methods in PATHS.items() for method in methods]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)


def fits(value: Any, schema: dict[str, Any]) -> None:
    whole = {**schema, "components": DOCUMENT["components"]}
    Draft202012Validator(whole).validate(value)


def fits_operation(path: str, method: str, reply: Reply) -> None:
    responses = PATHS[path][method]["responses"]
    assert str(reply.status) in responses, (path, reply.status, reply.body)
    schema = responses[str(reply.status)]["content"]["application/json"]["schema"]
    fits(reply.json(), schema)


def test_what_lies_in_docs_is_what_the_routes_say_now() -> None:
    assert FILE.read_text() == text(), "run: make docs"


def test_every_reference_has_an_end_and_every_operation_a_name_and_a_sentence() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for part in json.dumps(DOCUMENT).split('"$ref": "')[1:]:
        name = part.partition('"')[0].removeprefix("#/components/schemas/")
        assert name in schemas
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    operations = [PATHS[path][method] for path, method in OPERATIONS]
    assert len({each["operationId"] for each in operations}) == len(operations)
    for each in operations:
        assert each["description"] and {"401", "403", "503"} <= set(each["responses"])
        assert "HTTPValidationError" not in json.dumps(each)
    assert {scheme["type"] for scheme in DOCUMENT["components"]["securitySchemes"].values()} == {
        "http",
        "mutualTLS",
    }


def test_questions_and_answers_are_described_as_they_are_sent() -> None:
    ask = an_ask(evidence=["NPD"], deadline=T0, inevitable=True)
    fits(ask.to_dict(), {"$ref": "#/components/schemas/Ask"})
    for verdict in (YES, NO):
        fits(verdict.to_dict(), {"$ref": "#/components/schemas/Verdict"})


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v1/status", "/v1/status"),
        ("/v1/queue", "/v1/queue"),
        ("/v1/breakers", "/v1/breakers"),
        ("/v1/requests", "/v1/requests?since=2026-01-01T00:00:00Z&limit=5"),
        ("/v1/requests", "/v1/requests?since=yesterday"),
        ("/v1/requests", "/v1/requests?limit=0"),
        ("/v1/nodes/{name}/explain", "/v1/nodes/n1/explain"),
        ("/v1/nodes/{name}/explain", "/v1/nodes/n2/explain"),
        ("/v1/nodes/{name}/preview", "/v1/nodes/n1/preview"),
        ("/v1/nodes/{name}/preview", "/v1/nodes/n2/preview"),
        ("/v1/permits/{name}", "/v1/permits/p?secondsNeeded=3"),
        ("/v1/permits/{name}", "/v1/permits/p"),
        ("/v1/permits/{name}", "/v1/permits/" + "p" * 254 + "?secondsNeeded=1"),
    ],
)
async def test_answers_fit_the_document(path: str, target: str) -> None:
    fits_operation(path, "get", await request(an_app(Recording()), "GET", target))


@pytest.mark.parametrize(("method", "target"), [("GET", "/v2"), ("DELETE", "/v1/permits")])
async def test_what_is_not_there_is_a_sentence_too(method: str, target: str) -> None:
    reply = await request(an_app(Recording()), method, target)
    assert reply.status in (404, 405) and target in reply.json()["message"]


async def test_no_page_of_the_documentation_comes_from_elsewhere() -> None:
    app = an_app(Recording())
    for page in ("/docs", "/redoc"):
        assert (await request(app, "GET", page)).status == 404
    assert (await request(app, "GET", "/openapi.json")).json() == DOCUMENT


# -- whatever is sent -----------------------------------------------------------------------------


def whole() -> dict[str, Any]:
    return an_ask(evidence=["NPD"], deadline=T0).to_dict()


BODIES = st.one_of(
    st.binary(max_size=64),
    JSON_VALUES.map(lambda value: json.dumps(value).encode()),
    st.builds(
        lambda field, value: json.dumps({**whole(), field: value}).encode(),
        st.sampled_from([*whole(), "more"]),
        JSON_VALUES,
    ),
    st.builds(
        lambda field, value: json.dumps(
            {**whole(), "holder": {**whole()["holder"], field: value}}
        ).encode(),
        st.sampled_from(["kind", "name", "uid", "x"]),
        JSON_VALUES,
    ),
)
APP = an_app(Recording())


@given(body=BODIES)
@settings(max_examples=80, deadline=None)
@pytest.mark.exhaustive
def test_no_body_is_a_failure_of_ours(body: bytes) -> None:
    reply = asyncio.run(request(APP, "POST", "/v1/permits", body))
    assert reply.status in (200, 422)
    fits_operation("/v1/permits", "post", reply)


@given(
    name=st.text(st.characters(codec="ascii", exclude_characters="/?#%"), min_size=1, max_size=300),
    seconds=st.text(st.characters(codec="ascii", exclude_characters="#&"), max_size=12),
    token=st.none() | st.text(st.characters(codec="latin-1", categories=["L", "N"]), max_size=20),
)
@settings(max_examples=60, deadline=None)
def test_no_name_time_or_token_is_a_failure_of_ours(
    name: str, seconds: str, token: str | None
) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    target = f"/v1/permits/{name}?secondsNeeded={seconds}"
    reply = asyncio.run(request(APP, "GET", target, headers=headers))
    assert reply.status in (200, 401, 422), reply.body


# -- who is let in --------------------------------------------------------------------------------


class Rights(RequestAuthenticator):
    """One caller, who may do what is listed."""

    def __init__(self, *rights: str) -> None:
        super().__init__(None, FakeClock(), RequestAuthenticatorSettings())
        self.rights = rights

    async def identify(self, token: str, peer: Any = None) -> Identity | None:
        return Identity("ann") if token == "ann" else None

    async def may(self, who: Identity, verb: str, resource: str, *_: Any, **__: Any) -> bool:
        return f"{verb} {resource}" in self.rights


NEEDS = {
    ("POST", "/v1/permits"): "create permits/ask",
    ("GET", "/v1/permits/p?secondsNeeded=1"): "get permits",
    ("POST", "/v1/permits/p/renew"): "update permits/ask",
    ("POST", "/v1/permits/p/release"): "update permits/ask",
    ("GET", "/v1/status"): "get permits",
    ("GET", "/v1/queue"): "get permits",
    ("GET", "/v1/breakers"): "get permits",
    ("GET", "/v1/requests"): "get permits",
    ("GET", "/v1/nodes/n1/explain"): "get permits",
    ("GET", "/v1/nodes/n1/preview"): "get permits",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("call", "right"), list(NEEDS.items()))
async def test_each_call_needs_its_right_and_no_other(call: tuple[str, str], right: str) -> None:
    body = json.dumps(whole()).encode() if call == ("POST", "/v1/permits") else b""
    shown = {"Authorization": "Bearer ann"}

    async def status(gate: RequestAuthenticator, headers: dict[str, str]) -> int:
        app = create_app(Recording(), Nothing(), gate)
        return (await request(app, *call, body, headers)).status

    others = [each for each in set(NEEDS.values()) if each != right]
    assert await status(Rights(right), shown) == 200
    assert await status(Rights(*others), shown) == 403
    assert await status(Rights(right), {}) == 401


async def test_every_documented_operation_is_among_those() -> None:
    assert len(OPERATIONS) == len(NEEDS) + 1, "all but /v1/wakes, which needs `create permits/ask`"
    reply = await request(
        create_app(Recording(), Nothing(), Rights("get permits")),
        "GET",
        "/v1/wakes",
        headers={"Authorization": "Bearer ann"},
    )
    assert reply.status == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8082"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
async def test_an_open_door_is_not_open_to_pages_in_browsers(
    headers: dict[str, str], status: int
) -> None:
    given = {k.lower(): v for k, v in headers.items()}
    assert (await request(APP, "GET", "/v1/status", headers=given)).status == status
    assert LOOPBACK.name == "loopback"


# -- explanations ---------------------------------------------------------------------------------


def test_an_explanation_gives_every_reason_and_takes_nothing() -> None:
    pauses = [{"scope": "Node", "value": "n0", "why": "disk swap"}]
    limits = [{"scope": "Cluster", "maxConcurrent": 1, "minHealthy": 2}]
    core = Core(a_policy(limits=limits, pauses=pauses, smallPool={"nodes": 0}))
    core.nodes(*(a_node(f"n{n}") for n in range(3)))
    core.ask(asking("n1"))
    found = explained("n0", core.control, T0 + timedelta(seconds=1), "yes")
    assert found is not None and found.health == "Healthy" and found.policies == ["default"]
    answer = next(
        a for a in found.answers if (a.operation, a.class_) == (Operation.REPAIR, Disruption.NODE)
    )
    reasons = [objection.reason for objection in answer.objections]
    assert set(reasons) >= {Reason.PAUSED, Reason.CONCURRENCY_LIMIT, Reason.MIN_HEALTHY}
    assert answer.verdict.reason is reasons[0] is Reason.PAUSED
    assert [held.node for held in core.ledger.open()] == ["n1"]
    assert explained("n9", core.control, T0, "yes") is None
    fits(found.to_dict(), {"$ref": "#/components/schemas/Explanation"})


def test_an_explanation_shows_who_holds_and_who_waits() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1}]))
    core.nodes(*(a_node(f"n{n}") for n in range(10)))
    core.ask(asking("n1"))
    waits = asking("n0")
    verdict = core.control.queue.answered(waits, core.judge(waits), core.now)
    assert not verdict.allowed
    found = explained("n0", core.control, core.now, "yes")
    assert found is not None
    assert [(each.holder, each.place) for each in found.waiting] == [(waits.holder, 1)]
    held = explained("n1", core.control, core.now, "no: stale")
    assert held is not None and held.ready == "no: stale"
    assert [permit.node for permit in held.permits] == ["n1"]
    for each in (found, held):
        fits(each.to_dict(), {"$ref": "#/components/schemas/Explanation"})
