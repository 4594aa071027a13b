"""`kubenode bundle`: a file that shows a cluster's KubeNode, in which nothing secret is."""

import json
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.command import kubenode
from support.defender_objects import node_object
from support.embedded import EmbeddedPlane
from support.remedy_builders import a_spec

from kubenode.cli.cluster import crds

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
SYSTEM = "kubenode-system"
PLANTED = [f"hunter{n}-never-to-be-seen" for n in range(12)]
"""Each stands somewhere in the cluster, in a log or in a page of metrics."""
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2JvZHkifQ.c2lnbmF0dXJlLW9mLW5vYm9keQ"
LOG = f"""2026-01-01T00:00:00Z {{"event": "job made", "job": "n1-0123456789", "node": "n1"}}
2026-01-01T00:00:01Z {{"event": "refused", "why": "Authorization: Bearer {PLANTED[0]}"}}
2026-01-01T00:00:02Z joined with {JWT}
2026-01-01T00:00:03Z told https://hooks.slack.com/services/{PLANTED[1]}
2026-01-01T00:00:04Z got https://user:{PLANTED[2]}@example.com/?sig={PLANTED[3]}
"""
METRICS = "# TYPE kubenode_engine_up gauge\nkubenode_engine_up 1.0\n"


@dataclass
class Front:
    """The API server with what it would fetch from kubelets: logs of pods, and their metrics."""

    server: str
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
        self.asked.append(path)
        plain = path.partition("?")[0]
        if plain.endswith("/log"):
            return 200, "text/plain", LOG.encode()
        if plain.endswith("/proxy/metrics"):
            return 200, "text/plain", METRICS.encode()
        wanted = urllib.request.Request(self.server + path, headers=headers)
        try:
            with urllib.request.urlopen(wanted, timeout=10) as got:
                return got.status, got.headers["Content-Type"], got.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read()


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane(crds=crds()) as found:
        found.api.load(json.loads(json.dumps(objects())))
        yield found


@pytest.fixture(scope="module")
def front(plane: EmbeddedPlane) -> Iterator[Front]:
    front = Front(plane.server)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            accept = {"Accept": self.headers.get("Accept", "application/json")}
            status, kind, raw = front.answer(self.path, accept)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests look at what was asked."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="front")
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    text = plane.kubeconfig.read_text().replace(plane.server, url)
    (plane.folder / "front").write_text(text)
    try:
        yield front
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def objects() -> list[dict[str, Any]]:
    node = node_object("n1", {"zone": "a"})
    node["metadata"]["annotations"] = {"bmc": f"https://root:{PLANTED[4]}@10.0.0.9/"}
    job = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {
            "name": "n1-0123456789",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"a": PLANTED[5]})
            },
        },
        "spec": a_spec(),
        "status": {
            "phase": "Running",
            "message": f"the step said: password={PLANTED[6]}",
            "agent": {"requests": {"r0s2a1": {"state": "Failed", "output": PLANTED[7]}}},
        },
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kubenode-webhook", "namespace": SYSTEM},
        "stringData": {"token": PLANTED[8]},
    }
    variables = [
        {"name": "HTTPS_PROXY", "value": f"http://me:{PLANTED[9]}@proxy"},
        {"name": "KUBENODE_LOG_LEVEL", "value": "debug"},
        {"name": "KUBENODE_TOKEN", "value": PLANTED[10]},
        {"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": PLANTED[11]},
    ]
    container = {
        "name": "remedy",
        "image": "kubenode:1",
        "env": variables,
        "ports": [{"name": "metrics", "containerPort": 8081}],
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kubenode-remedy-0", "namespace": SYSTEM},
        "spec": {"containers": [container]},
        "status": {"containerStatuses": [{"name": "remedy", "restartCount": 2}]},
    }
    return [namespace, node, job, secret, pod]


@pytest.fixture(scope="module")
def files(
    plane: EmbeddedPlane, front: Front, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Of the bundle, by their names."""
    out = tmp_path_factory.mktemp("bundle") / "b.tar.gz"
    done = kubenode("bundle", "--kubeconfig", plane.folder / "front", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "manifest" not in done.stderr
    assert f"wrote {out}" in done.stdout
    assert out.stat().st_mode & 0o777 == 0o600
    with tarfile.open(out) as archive:
        read = {m.name.removeprefix("b/"): archive.extractfile(m) for m in archive.getmembers()}
        return {name: file.read().decode() for name, file in read.items() if file is not None}


def test_it_holds_what_a_helper_asks_for_first(files: dict[str, str]) -> None:
    (job,) = json.loads(files["resources/remedyoperationjobs.json"])
    assert job["status"]["phase"] == "Running"
    (node,) = json.loads(files["nodes.json"])
    assert node["metadata"]["labels"]["zone"] == "a"
    versions = json.loads(files["versions.json"])
    assert versions["server"]["gitVersion"]
    assert {"name": "permits.kubenode.io", "storedVersions": ["v1alpha1"]}.items() <= next(
        one for one in versions["crds"] if one["name"].startswith("permits")
    ).items()
    assert "job made" in files["logs/kubenode-remedy-0-remedy.log"]
    assert "job made" in files["logs/kubenode-remedy-0-remedy-previous.log"]
    assert files["metrics/kubenode-remedy-0.txt"] == METRICS
    (pod,) = json.loads(files["workloads/pods.json"])
    env = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
    assert env["KUBENODE_LOG_LEVEL"] == "debug"


def test_nothing_secret_is_in_it_and_no_secret_was_asked_for(
    files: dict[str, str], front: Front
) -> None:
    everything = "\n".join(files.values())
    assert [word for word in (*PLANTED, JWT) if word in everything] == []
    assert [path for path in front.asked if "secret" in path.lower()] == []


def test_the_manifest_names_every_file_and_what_is_missing_with_its_reason(
    files: dict[str, str],
) -> None:
    manifest = json.loads(files["manifest.json"])
    assert {one["file"] for one in manifest["files"]} == files.keys() - {"manifest.json"}
    assert all(one["bytes"] == len(files[one["file"]].encode()) for one in manifest["files"])
    assert all(one["why"] for one in manifest["missing"])
    assert manifest["namespace"] == SYSTEM


def test_a_cluster_without_our_pods_says_so(plane: EmbeddedPlane, tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    done = kubenode(
        "bundle", "--kubeconfig", plane.kubeconfig, "--namespace", "other", "--out", out
    )
    assert done.returncode == 0, done.stderr
    assert "no pods: KubeNode does not run there" in done.stdout


def test_a_file_that_cannot_be_written_is_said_with_a_remedy(
    plane: EmbeddedPlane, tmp_path: Path
) -> None:
    out = tmp_path / "missing" / "b.tar.gz"
    done = kubenode("bundle", "--kubeconfig", plane.kubeconfig, "--out", out)
    assert done.returncode == 1
    assert f"--out {out}: No such file or directory: name a file elsewhere" in done.stderr
