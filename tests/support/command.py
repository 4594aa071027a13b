"""The real `kubenode` command as a subprocess, and servers that answer it badly."""

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.command_process import COMMAND as COMMAND
from support.command_process import CommandProcess
from support.command_process import environment as environment


def kubenode(
    *arguments: str | Path, limit: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end in a fork of a process that has loaded it; `variables` are of environment.

    Raises subprocess.TimeoutExpired after `limit` seconds, and the command is killed.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = CommandProcess([*map(str, arguments)], environment(**variables), (out, err))
        try:
            code = process.wait(limit)
        finally:
            process.close()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return subprocess.CompletedProcess(process.args, code, *texts)


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
def started(*arguments: str | Path, **variables: str) -> Iterator[CommandProcess]:
    """The command in the background, in a fork; killed if it is still there."""
    process = CommandProcess([*map(str, arguments)], environment(**variables))
    try:
        yield process
    finally:
        process.close()


@contextmanager
def freshly_started(*arguments: str | Path, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """The command in the background, as a shell starts it; killed if it is still there."""
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
