"""Any pod at every port: no credential, a made-up one, one of another audience, one without rights.

The programs run as people start them, against a real kube-apiserver with the chart's roles.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any

import pytest
from support.chart_rights import ChartRights
from support.control_plane import ControlPlane
from support.program_ports import PORTS, ProgramPorts, anyone
from support.waiting import until

from defender.dashboard.pages import PAGES
from insight.site.pages import PAGES as INSIGHT_PAGES

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

ACCOUNT = "port-caller"
DEFENDER_AUDIENCE, DOCTOR_AUDIENCE = "kubenode-defender", "kubenode-host-doctor"
START_SECONDS = 90
PUBLIC = {"/healthz", "/openapi.json"}
"""Paths of Kube Defender's API that need no token."""
DELIVERIES = [
    ("POST", "/v1/alertmanager"),
    ("POST", "/v1/grafana"),
    ("POST", "/v1/cloudevents"),
    ("POST", "/v1/alibaba"),
    ("POST", "/v1/hosts/n1/events"),
    ("PUT", "/v1/hosts/n1/bundles/a.tar.gz"),
    ("GET", "/v1/hosts/n1/bundles/a.tar.gz"),
]
FORMS = ["/logout", "/pauses", "/pauses/resume", "/jobs/j/decide"]
CREDENTIALS = ["none", "made up", "another audience", "of the API server", "without rights"]


class AnyPod:
    """A pod with a service account that has no right of KubeNode."""

    def __init__(self, cp: ControlPlane, programs: Mapping[str, ProgramPorts]) -> None:
        self._cp, self._programs = cp, programs

    def headers(self, credential: str, audience: str) -> dict[str, str]:
        """Any pod has itself a token of any audience made, by a projected volume."""
        flags = {
            "another audience": ["--audience=another"],
            "of the API server": [],
            "without rights": [f"--audience={audience}"],
        }
        if credential == "none":
            return {}
        token = "made-up"
        if credential in flags:
            words = ("create", "token", ACCOUNT, "-n", "default", *flags[credential])
            token = self._cp.kubectl(*words).stdout.strip()
        return {"Authorization": f"Bearer {token}"}

    def ask(
        self,
        program: str,
        flag: str,
        requests: list[tuple[str, str]],
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> dict[str, int]:
        """HTTP status of each request."""
        found = {}
        for method, path in requests:
            with closing(self._connection(program, flag)) as connection:
                data = None if body is None else json.dumps(body)
                connection.request(method, path, data, headers or {})
                found[f"{method} {path}"] = connection.getresponse().status
        return found

    def _connection(self, program: str, flag: str) -> HTTPConnection:
        number = self._programs[program].ports[flag]
        tls = next(port.tls for port in PORTS if (port.program, port.flag) == (program, flag))
        if tls:
            return HTTPSConnection("127.0.0.1", number, timeout=20, context=anyone())
        return HTTPConnection("127.0.0.1", number, timeout=20)

    def api(self) -> list[tuple[str, str]]:
        """Every operation that Kube Defender documents of itself."""
        with closing(self._connection("all", "listen-port")) as connection:
            connection.request("GET", "/openapi.json")
            found = json.load(connection.getresponse())["paths"]
        return [
            (method.upper(), path.replace("{name}", "n1"))
            for path, operations in found.items()
            for method in operations
            if path not in PUBLIC
        ]


@pytest.fixture(scope="module")
def pod(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyPod]:
    folder = tmp_path_factory.mktemp("ports")
    tokens = folder / "tokens"
    tokens.write_text("0123456789abcdef0123456789abcdef\n")
    flags = [
        "--tls",
        "--listen-address=0.0.0.0",  # on loopback alone, who shows nothing may ask and read
        f"--token-audience={DEFENDER_AUDIENCE}",
        f"--host-doctor-token-files={tokens}",
        f"--host-doctor-token-audience={DOCTOR_AUDIENCE}",
        f"--bundles={folder}",
    ]
    with ChartRights(control_plane):
        control_plane.kubectl("create", "serviceaccount", ACCOUNT, "-n", "default")
        operator = f"--kubeconfig={control_plane.kubeconfig}", "--no-lease"
        files = f"--sender-token-file={tokens}", f"--reader-token-file={tokens}"
        database = f"--database-url=sqlite:///{folder}/insight.db"
        programs = {
            "all": ProgramPorts("all", folder, *operator, *flags),
            "machine": ProgramPorts("machine", folder, *operator),
            "captain": ProgramPorts("captain", folder, *operator),
            "insight": ProgramPorts("insight", folder, database, *files),
        }
        made = AnyPod(control_plane, programs)
        try:
            for each in programs.values():
                each.daemon.start()
            for port in PORTS:
                look = partial(listens, made, port.program, port.flag)
                until(look, str(port), START_SECONDS)
            yield made
        finally:
            for each in programs.values():
                each.daemon.stop()
            control_plane.kubectl("delete", "serviceaccount", ACCOUNT, "-n", "default")


def listens(pod: AnyPod, program: str, flag: str) -> bool:
    try:
        return pod.ask(program, flag, [("GET", "/healthz")])["GET /healthz"] < 500
    except (OSError, HTTPException):
        return False


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_kube_defender_refuses_every_operation(pod: AnyPod, credential: str) -> None:
    operations = pod.api()
    assert ("POST", "/v1/permits") in operations
    refusal = 403 if credential == "without rights" else 401
    headers = pod.headers(credential, DEFENDER_AUDIENCE)
    answers = pod.ask("all", "listen-port", operations, headers, {})
    assert {name: code for name, code in answers.items() if code != refusal} == {}


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_host_doctor_takes_no_delivery_and_no_bundle_and_gives_none(
    pod: AnyPod, credential: str
) -> None:
    headers = pod.headers(credential, DOCTOR_AUDIENCE)
    answers = pod.ask("all", "host-doctor-port", DELIVERIES, headers, {})
    refusals = (401, 403) if credential == "without rights" else (401,)
    assert {name: code for name, code in answers.items() if code not in refusals} == {}


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_the_dashboard_shows_and_does_nothing(pod: AnyPod, credential: str) -> None:
    pages = [page.path.replace("{name}", "n1") for page in PAGES]
    shown = [("GET", path) for page in pages for path in (page, f"/live{page}")]
    requests = [*shown, ("GET", "/find"), *(("POST", path) for path in FORMS)]
    headers = pod.headers(credential, DEFENDER_AUDIENCE)
    answers = pod.ask("all", "dashboard-port", requests, headers)
    assert {name: code for name, code in answers.items() if code not in (303, 401, 403)} == {}


@pytest.mark.parametrize("header", ["X-Forwarded-User", "X-Auth-Request-User", "X-Remote-User"])
def test_the_dashboard_believes_no_header_that_names_a_user(pod: AnyPod, header: str) -> None:
    answers = pod.ask("all", "dashboard-port", [("GET", "/")], {header: "admin"})
    assert set(answers.values()) <= {303, 401, 403}


WEBHOOKS = [port for port in PORTS if port.path.startswith(("/validate", "/mutate"))]


@pytest.mark.parametrize("port", WEBHOOKS, ids=str)
def test_an_admission_port_answers_reviews_and_nothing_else(pod: AnyPod, port: Any) -> None:
    """It has no credential to check: a made-up review is answered, and stores nothing."""
    requests = [(method, port.path) for method in ("POST", "GET", "PUT", "DELETE")]
    requests += [("GET", path) for path in ("/", "/metrics", "/v1/permits")]
    answers = pod.ask(port.program, port.flag, requests, body={})
    assert answers.pop(f"POST {port.path}") == 400, "an object that is no review"
    assert set(answers.values()) <= {404, 405}


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_insight_takes_and_shows_nothing(pod: AnyPod, credential: str) -> None:
    pages = [page.path for page in INSIGHT_PAGES]
    analyses = [f"/v1/{name}" for name in ("faults", "healing", "lemons", "incidents")]
    shown = [*pages, *analyses, "/incidents/i", "/v1/incidents/i", "/csv/faults"]
    requests = [("POST", "/v1/events"), ("POST", "/logout"), *(("GET", path) for path in shown)]
    headers = pod.headers(credential, DEFENDER_AUDIENCE)
    answers = pod.ask("insight", "insight-port", requests, headers, {})
    assert {name: code for name, code in answers.items() if code not in (303, 401, 403)} == {}


@pytest.mark.parametrize("program", ["all", "machine", "captain", "insight"])
def test_a_health_port_is_read_only(pod: AnyPod, program: str) -> None:
    paths = ("/healthz", "/livez", "/readyz", "/metrics")
    writes = [(method, path) for path in paths for method in ("POST", "PUT", "DELETE")]
    others = [("GET", path) for path in ("/", "/debug", "/v1/permits")]
    answers = pod.ask(program, "health-port", [*writes, *others], body={})
    assert {name: code for name, code in answers.items() if code not in (404, 405)} == {}
