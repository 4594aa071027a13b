"""The real `kubenode` command as a subprocess, and servers that answer it badly."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).parent / "kubenode")


def environment(**more: str) -> dict[str, str]:
    """Ours without what would name a cluster, and with a home that names none."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "KUBENODE_"))}
    return {**kept, "HOME": os.devnull, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", **more}


def kubenode(
    *arguments: str | Path, limit: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end; `variables` are environment variables."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


@contextmanager
def started(*arguments: str | Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The command in the background, in a process group of its own; killed if it is still there."""
    process = subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def kubeconfig(path: Path, server: str, *, token: str = "") -> Path:
    """A kubeconfig for `server` at `path`."""
    user = {"token": token} if token else {}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return path


@contextmanager
def http_server(answers: Mapping[str, tuple[int, Any]]) -> Iterator[str]:
    """A server that answers GETs by path with (status, JSON) and all else with 404; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            unknown = (404, {"kind": "Status", "reason": "NotFound", "code": 404})
            status, body = answers.get(self.path.partition("?")[0], unknown)
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
