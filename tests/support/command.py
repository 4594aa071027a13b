"""The real `kubenode` command as a subprocess, and servers that answer it badly."""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).parent / "kubenode")
FORKS = Path(__file__).with_name("command_forks.py")


def environment(**more: str) -> dict[str, str]:
    """Ours without what would name a cluster, and with a home that names none."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "KUBENODE_"))}
    return {**kept, "HOME": os.devnull, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", **more}


def kubenode(
    *arguments: str | Path, limit: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end in a fork of a process that has loaded it; `variables` are of environment.

    Raises subprocess.TimeoutExpired after `limit` seconds, and the command is killed.
    """
    words = [*map(str, arguments)]
    request = {"arguments": words, "environment": environment(**variables), "folder": os.getcwd()}
    with (
        _forks() as line,
        tempfile.TemporaryFile("w+", errors="replace") as out,
        tempfile.TemporaryFile("w+", errors="replace") as err,
    ):
        raw = f"{json.dumps(request)}\n".encode()
        socket.send_fds(line, [raw], [out.fileno(), err.fileno()])
        line.settimeout(limit)
        try:
            code = int(line.recv(16))
        except TimeoutError:
            raise subprocess.TimeoutExpired([COMMAND, *words], limit) from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([COMMAND, *words], code, out.read(), err.read())


_lock = threading.Lock()
_started: list[Path] = []


def _forks() -> socket.socket:
    """A connection to the process that forks the command, which ends with this one."""
    with _lock:
        if not _started:
            _started.append(_start_forks())
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(_started[0]))
    return line


def _start_forks() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kubenode-command-"))
    path = folder / "socket"
    process = subprocess.Popen(
        [sys.executable, FORKS, path],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None

    def end() -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait()

    atexit.register(end)
    assert process.stdout.readline() == b"loaded\n", f"{FORKS.name} does not start"
    return path


def fresh(
    *arguments: str | Path, limit: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end as a shell starts it; `variables` are environment variables."""
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


UNKNOWN = (404, {"kind": "Status", "reason": "NotFound", "code": 404})


@contextmanager
def http_server(
    answers: Mapping[str, tuple[int, Any]], default: tuple[int, Any] = UNKNOWN
) -> Iterator[str]:
    """A server that answers by path with (status, JSON or bytes), else with `default`; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.get(self.path.partition("?")[0], default)
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

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
